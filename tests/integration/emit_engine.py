"""Which keys of ``zero_optimization`` the real engine reads at each stage, beyond parsing them.

Run as a script: ``emit_engine.py FOLDER``, a list of configurations on stdin; one JSON list of the fields read per
configuration on stdout. Each trains a tiny model for one step as rank 0 of 8 and saves its weights.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any

os.environ.update(
    DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="8", MASTER_ADDR="127.0.0.1", MASTER_PORT="29598"
)

import deepspeed
import torch
import torch._dynamo
import torch.distributed as dist
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from deepspeed.utils import logger
from torch.testing._internal.distributed.fake_pg import FakeStore

logger.setLevel(logging.ERROR)
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
deepspeed.init_distributed(dist_backend="fake")

_plain = DeepSpeedZeroConfig.__getattribute__
_fields = {name: field.alias or name for name, field in DeepSpeedZeroConfig.model_fields.items()}
_read: set[str] = set()


def _noting(self: Any, name: str) -> Any:
    if name in _fields and "/zero/config.py" not in sys._getframe(1).f_code.co_filename:
        _read.add(_fields[name])
    return _plain(self, name)


def fields_read(config: dict[str, Any]) -> list[str]:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    _read.clear()
    DeepSpeedZeroConfig.__getattribute__ = _noting  # type: ignore[method-assign,assignment]
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    engine.backward(engine(torch.ones(2, 8, dtype=torch.bfloat16)).sum())
    engine.step()
    engine.save_16bit_model(sys.argv[1])
    DeepSpeedZeroConfig.__getattribute__ = _plain  # type: ignore[method-assign]
    return sorted(_read)


for configuration in json.load(sys.stdin):
    sys.stdout.write(json.dumps(fields_read(configuration)) + "\n")
