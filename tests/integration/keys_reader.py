"""How far configurations come with the real DeepSpeed or Accelerate: parsed, engine built, one step taken.

Run as a script: ``keys_reader.py``. Each line of stdin is ``[reader, configuration]``; "parse" stops after parsing,
"deepspeed" goes on to a step of a tiny model, "accelerate" takes that step through ``Accelerator.prepare``. Each line
of stdout is the error, or null.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from typing import Any

from fake_world import be_rank_0_of  # isort: skip  (it sets what the others read)
import deepspeed
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DeepSpeedPlugin, DummyOptim, DummyScheduler
from deepspeed.runtime.config import DeepSpeedConfig

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # DeepSpeed and its loggers print
os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
be_rank_0_of(1)


class Model(torch.nn.Sequential):
    class config:  # noqa: N801  (the name that Accelerate looks for)
        hidden_size = 8

    def __init__(self) -> None:
        super().__init__(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))


def with_deepspeed(config: dict[str, Any]) -> None:
    parsed = DeepSpeedConfig(copy.deepcopy(config))
    model = Model().to(torch.bfloat16 if parsed.bfloat16_config.enabled else torch.float32)
    parameters = list(model.parameters())
    optimizer = None if config.get("optimizer") else torch.optim.AdamW(parameters, lr=1e-3)
    engine, *_ = deepspeed.initialize(model=model, config=config, model_parameters=parameters, optimizer=optimizer)
    engine.backward(engine(torch.ones(1, 8, dtype=parameters[0].dtype)).sum())
    engine.step()


def with_accelerate(config: dict[str, Any]) -> None:
    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=config), mixed_precision="bf16")
    model = Model()
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if "optimizer" in config:
        optimizer = DummyOptim(model.parameters(), lr=1e-3)
    schedule = [DummyScheduler(optimizer, total_num_steps=8, warmup_num_steps=2)] if "scheduler" in config else []
    loader = torch.utils.data.DataLoader([torch.ones(8)] * 2, batch_size=1)
    accelerator.prepare(model, optimizer, loader, *schedule)


def with_parser(config: dict[str, Any]) -> None:
    DeepSpeedConfig(config)


_READERS = {"parse": with_parser, "deepspeed": with_deepspeed, "accelerate": with_accelerate}

for line in sys.stdin:
    reader, configuration = json.loads(line)
    try:
        _READERS[reader](configuration)
        verdict = None
    except Exception as error:  # noqa: BLE001  (any refusal is a verdict)
        verdict = f"{type(error).__name__}: {error}"
    answers.write(json.dumps(verdict) + "\n")
    answers.flush()
