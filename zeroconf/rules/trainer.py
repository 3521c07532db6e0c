"""Which ``TrainingArguments`` the Trainer compares with a configuration, key by key.

transformers/integrations/deepspeed.py, trainer_config_process and trainer_config_finalize: "auto" is filled from the
argument; another value that differs from it is refused ("Please correct the following DeepSpeed config values that
mismatch TrainingArguments values").
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ARGUMENTS: Final[dict[tuple[str, ...], tuple[str, ...]]] = {
    ("train_micro_batch_size_per_gpu",): ("per_device_train_batch_size",),
    ("gradient_accumulation_steps",): ("gradient_accumulation_steps",),
    ("gradient_clipping",): ("max_grad_norm",),
    ("bf16", "enabled"): ("bf16",),
    ("fp16", "enabled"): ("fp16",),
    ("optimizer", "params", "lr"): ("learning_rate",),
    ("optimizer", "params", "betas"): ("adam_beta1", "adam_beta2"),
    ("optimizer", "params", "eps"): ("adam_epsilon",),
    ("optimizer", "params", "weight_decay"): ("weight_decay",),
    ("scheduler", "params", "warmup_max_lr"): ("learning_rate",),
    ("scheduler", "params", "warmup_num_steps"): ("warmup_steps",),
    ("scheduler", "params", "total_num_steps"): ("max_steps",),
}


def arguments_of(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The arguments that must say what the configuration does, each once, with the value as a command line has it."""
    found: dict[str, str] = {}
    for path, names in ARGUMENTS.items():
        value: object = config
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        values = value if isinstance(value, list) else [value]
        if value is None or value is False or value == "auto" or len(values) != len(names):
            continue
        for name, one in zip(names, values, strict=True):
            found.setdefault(name, json.dumps(one))
    yield from found.items()
