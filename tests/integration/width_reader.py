"""What Accelerate fills bucket sizes with for models on the CPU, one a line of stdin: the values, or its refusal."""

from __future__ import annotations

import json
import sys
from typing import Any

from fake_world import be_rank_0_of  # isort: skip  (it sets what the others read)
import deepspeed
import torch
from accelerate import Accelerator
from accelerate.utils import DeepSpeedPlugin
from transformers import AutoConfig


class StopError(Exception):
    """DeepSpeed would start now, with this configuration."""


def _stop(**given: Any) -> None:
    raise StopError(given["config_params"])


deepspeed.initialize = _stop
ZERO = {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"}
CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {**ZERO, "stage3_param_persistence_threshold": "auto"},
}


def filled(values: dict[str, Any]) -> dict[str, Any]:
    """``zero_optimization`` as DeepSpeed would get it, or the ``error``."""
    be_rank_0_of(1)
    accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=json.loads(json.dumps(CONFIG))))
    model = torch.nn.Linear(8, 8)
    model.config = AutoConfig.for_model(**values)
    try:
        accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    except StopError as reached:
        zero: dict[str, Any] = reached.args[0]["zero_optimization"]
        return zero
    except ValueError as error:
        return {"error": str(error)}
    return {}


for line in sys.stdin:
    print(json.dumps(filled(json.loads(line))), flush=True)  # noqa: T201  (the protocol)
