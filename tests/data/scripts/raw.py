"""Raw DeepSpeed, as its own examples are written: a tiny Llama, one batch, steps without end."""

import argparse
import json
from pathlib import Path

import deepspeed
import torch
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--shape", required=True)
parser.add_argument("--local_rank", type=int)
parser.add_argument("--deepspeed_config", required=True)
arguments = parser.parse_args()
deepspeed.init_distributed("gloo")
model = LlamaForCausalLM(LlamaConfig(**json.loads(Path(arguments.shape).read_text()))).to(torch.bfloat16)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=arguments.deepspeed_config)
ids = torch.randint(0, 256, (2, 128))
while True:
    loss = engine(input_ids=ids, labels=ids, attention_mask=torch.ones_like(ids)).loss
    engine.backward(loss)
    engine.step()
