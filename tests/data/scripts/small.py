"""Raw DeepSpeed with a data loader, and a loss that is scaled from one step on."""

import argparse

import deepspeed
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--deepspeed_config", required=True)
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--batches", type=int, default=1000)
parser.add_argument("--factor", type=float, default=1.0)
parser.add_argument("--after", type=int, default=0)
arguments = parser.parse_args()
deepspeed.init_distributed("gloo")
model = torch.nn.Linear(32, 32)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=arguments.deepspeed_config)
data = torch.ones(arguments.batch * arguments.batches, 32, dtype=next(model.parameters()).dtype)
for number, batch in enumerate(torch.utils.data.DataLoader(data, batch_size=arguments.batch)):
    loss = engine(batch).float().pow(2).mean()
    engine.backward(loss if number < arguments.after else loss * arguments.factor)
    engine.step()
