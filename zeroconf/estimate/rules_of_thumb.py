"""The textbook's figures: what ZeRO partitions and sends, nothing else.

Source: "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (arXiv 1910.02054), section 5
(memory) and section 7 (communication). They leave out buffers, gathered layers and activations; see
``memory`` and ``traffic`` for what DeepSpeed really does.
"""

from __future__ import annotations

import math
from typing import Final

STAGES: Final = (0, 1, 2, 3)
PARAMETER_BYTES: Final = 2
GRADIENT_BYTES: Final = 2
# fp32 copy of the parameters, then the optimizer's own tensors, in bytes per parameter
STATE_BYTES: Final = {"adamw": 4 + 8, "adam": 4 + 8, "lion": 4 + 4, "sgd": 4, "adamw-8bit": 4 + 2, "lion-8bit": 4 + 1}


def model_state_bytes(num_parameters: float, num_gpus: int, stage: int, optimizer: str = "adamw") -> float:
    """Bytes of parameters, gradients and optimizer states on one GPU, mixed precision.

    7e9 parameters on 8 GPUs with Adam: 112e9 (stage 0), 38.5e9 (1), 26.25e9 (2), 14e9 (3).

    Raises:
        ValueError: ``stage`` is not 0 to 3, ``num_gpus`` is below 1, or the optimizer is unknown.
    """
    if stage not in STAGES or num_gpus < 1 or optimizer not in STATE_BYTES:
        msg = f"stage {stage}, {num_gpus} GPUs, optimizer {optimizer!r}: want stage 0-3, one GPU, {sorted(STATE_BYTES)}"
        raise ValueError(msg)
    states = STATE_BYTES[optimizer] / (num_gpus if stage >= 1 else 1)
    gradients = GRADIENT_BYTES / (num_gpus if stage >= 2 else 1)
    parameters = PARAMETER_BYTES / (num_gpus if stage >= 3 else 1)
    return num_parameters * (parameters + gradients + states)


def traffic_elements(num_parameters: float, stage: int, num_trainable: float | None = None) -> float:
    """Elements that one GPU sends per step for many GPUs, without accumulation: 2P, or 3P at stage 3.

    Where only ``num_trainable`` of them train, gradients and updates are theirs, while stage 3 gathers all weights for
    forward and for backward. 7e9 parameters: 14e9 at stages 0 to 2, 21e9 at stage 3; with 40e6 trainable 80e6 and
    14.04e9.
    """
    if stage not in STAGES:
        msg = f"stage {stage} is not 0 to 3"
        raise ValueError(msg)
    trainable = num_parameters if num_trainable is None else num_trainable
    return 2 * num_parameters + trainable if stage == 3 else 2 * trainable


def gpus_needed(
    num_parameters: float, gpu_memory_bytes: float, stage: int, optimizer: str = "adamw", share: float = 0.8
) -> int | None:
    """The smallest number of GPUs whose model states fill at most ``share`` of the memory; None if no number does.

    7e9 parameters on 80e9 bytes: none at stage 0, 3 at stage 1, 2 at stages 2 and 3.
    """
    replicated = model_state_bytes(num_parameters, 10**9, stage, optimizer)
    budget = gpu_memory_bytes * share
    if stage == 0:
        return 1 if replicated <= budget else None
    fixed = num_parameters * {1: PARAMETER_BYTES + GRADIENT_BYTES, 2: PARAMETER_BYTES, 3: 0}[stage]
    if budget <= fixed:
        return None
    partitioned = model_state_bytes(num_parameters, 1, stage, optimizer) - fixed
    return max(1, math.ceil(partitioned / (budget - fixed)))


def suggest_stage(
    num_parameters: float, num_gpus: int, gpu_memory_bytes: float, optimizer: str = "adamw", share: float = 0.8
) -> int | None:
    """The lowest stage whose model states fit ``share`` of the memory, or None: "enough is enough"."""
    budget = gpu_memory_bytes * share
    fitting = (stage for stage in STAGES if model_state_bytes(num_parameters, num_gpus, stage, optimizer) <= budget)
    return next(fitting, None)
