"""Raw DeepSpeed: endless steps on a linear layer."""

import argparse

import deepspeed
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--stage", type=int, default=2)
parser.add_argument("--local_rank", type=int)
stage = parser.parse_args().stage
config = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_optimization": {"stage": stage, "reduce_bucket_size": 1000},
}
deepspeed.init_distributed("gloo")
model = torch.nn.Linear(64, 64)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
batch = torch.ones(2, 64, dtype=torch.bfloat16)
while True:
    loss = engine(batch).float().pow(2).mean()
    engine.backward(loss)
    engine.step()
