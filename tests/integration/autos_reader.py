"""What DeepSpeed's parser and Accelerate's fill make of configurations, one a line of stdin: what each refuses with."""

from __future__ import annotations

import copy
import json
import sys
from typing import TYPE_CHECKING, Any

from accelerate.utils import DeepSpeedPlugin
from deepspeed.runtime.config import DeepSpeedConfig

if TYPE_CHECKING:
    from collections.abc import Callable

# what Accelerator._prepare_deepspeed and the Trainer fill between them
FILLED = {
    "train_micro_batch_size_per_gpu": 1,
    "train_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "gradient_clipping": 1.0,
    "fp16.enabled": True,
    "bf16.enabled": True,
    "optimizer.params.lr": 1e-3,
    "optimizer.params.betas": [0.9, 0.999],
    "optimizer.params.eps": 1e-8,
    "optimizer.params.weight_decay": 0.0,
    "scheduler.params.warmup_min_lr": 0,
    "scheduler.params.warmup_max_lr": 1e-3,
    "scheduler.params.warmup_num_steps": 1,
    "scheduler.params.total_num_steps": 1,
    "zero_optimization.reduce_bucket_size": 1,
    "zero_optimization.stage3_prefetch_bucket_size": 1,
    "zero_optimization.stage3_param_persistence_threshold": 1,
    "zero_optimization.stage3_gather_16bit_weights_on_model_save": False,
}


def _by_deepspeed(config: dict[str, Any]) -> None:
    DeepSpeedConfig(config)


def _by_accelerate(config: dict[str, Any]) -> None:
    plugin = DeepSpeedPlugin(hf_ds_config=config)
    plugin.deepspeed_config_process(must_match=False, **FILLED)
    DeepSpeedConfig(plugin.deepspeed_config)


def _refusal(read: Callable[[dict[str, Any]], None], config: dict[str, Any]) -> str:
    try:
        read(copy.deepcopy(config))
    except Exception as error:  # noqa: BLE001  (any refusal is a verdict)
        return f"{type(error).__name__}: {error}"
    return ""


for line in sys.stdin:
    given = json.loads(line)
    print(json.dumps([_refusal(_by_deepspeed, given), _refusal(_by_accelerate, given)]), flush=True)  # noqa: T201
