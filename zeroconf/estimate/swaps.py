"""Swap buffers of weights on NVMe (swap_tensor/partitioned_param_swapper.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.estimate.gathers import Limits, most_at_once
from zeroconf.estimate.trace import trace
from zeroconf.estimate.tree import Shape

if TYPE_CHECKING:
    from zeroconf.types import ModelSpec, Plan

# utils.py: MIN_AIO_BYTES, in elements of 16 bits; smaller parameters stay in host memory
_LEAST_ELEMENTS: Final = 1024**2 // 2


def swap_buffers(model: ModelSpec, plan: Plan, *, recomputes: bool) -> int:
    """Buffers that one GPU's weights hold at once, at least; all of them train.

    Each weight that is whole holds one until it is released, and what is used again within max_reuse_distance is not
    (partition_parameters.py: _partition_param; partitioned_param_coordinator.py: __params_to_release). Llama-3.2-1B
    with DeepSpeed's defaults: 27, with which the engine of 0.19.8 runs, and with 26 it stops.
    """
    limits = Limits(plan.max_live_parameters, plan.max_reuse_distance, 0, plan.param_persistence_threshold)
    return most_at_once(trace(Shape(model, model.num_layers, recomputes=recomputes)), limits, _LEAST_ELEMENTS)
