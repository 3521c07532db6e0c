"""What is said of DeepSpeed's engine of a user's program, and of what it is given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def describe(engine: Any) -> dict[str, Any]:
    """What DeepSpeed made of the configuration, and under which releases."""
    import deepspeed
    import torch

    return {
        "torch": torch.__version__,
        "deepspeed": deepspeed.__version__,
        "cuda": torch.version.cuda,
        "backend": str(torch.distributed.get_backend()),
        "parameters": sum(getattr(one, "ds_numel", one.numel()) for one in engine.module.parameters()),
        "ds_config": _plain(engine._config._param_dict),  # noqa: SLF001  (engine.config may be a path)
        "optimizer": type(engine.basic_optimizer).__name__,
        "zero_stage": int(engine.zero_optimization_stage()),
        "micro_batch_size": int(engine.train_micro_batch_size_per_gpu()),
        "gradient_accumulation_steps": int(engine.gradient_accumulation_steps()),
    }


def first_dimension(given: Any) -> int | None:
    """The first dimension of the first tensor among arguments, as it is the batch's; None where none has one."""
    if isinstance(shape := getattr(given, "shape", None), tuple):
        return int(shape[0]) if shape else None
    inner = given.values() if isinstance(given, Mapping) else given if isinstance(given, (list, tuple)) else ()
    return next((size for size in map(first_dimension, inner) if size is not None), None)


def _plain(config: Any) -> Any:
    """The configuration without what JSON cannot hold."""
    if isinstance(config, dict):
        return {str(key): _plain(value) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [_plain(value) for value in config]
    if isinstance(config, float):  # Accelerate sets steps_per_print to infinity
        return config if math.isfinite(config) else str(config)
    return config if isinstance(config, (str, int, bool, type(None))) else str(config)
