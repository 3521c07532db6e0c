"""What offload moves between GPU, host and NVMe in one optimizer step, for one rank.

DeepSpeed 0.19.8: zero/stage_1_and_2.py (async_accumulate_grad_in_cpu_via_gpu, copy_grads_in_partition), zero/stage3.py
(partition_grads, _optimizer_step), swap_tensor. P is the rank's share of what trains, in elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.estimate.optimizers import MASTER_BYTES
from zeroconf.types import Plan, Transfer, TransferRoute
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.estimate.sizes import Sizes

_PARAMETER_STAGE = 3


def transfers(plan: Plan, s: Sizes, gathered: int) -> tuple[Transfer, ...]:
    """All of them; ``gathered`` are the elements that one micro step gathers."""
    found = [*_optimizer(plan, s), *_parameters(plan, s, gathered)]
    return tuple(Transfer(route=route, purpose=purpose, bytes=size) for route, purpose, size in found if size)


def _optimizer(plan: Plan, s: Sizes) -> Iterator[tuple[TransferRoute, str, int]]:
    """Gradients go down in fp32 in the last micro step, weights come up.

    Stage 2 accumulates on the host: each micro step's gradients go down, and what is there comes up before. Stage 3
    keeps its gradients there and adds each micro step's to them on the GPU.
    """
    if plan.offload_optimizer == "none":
        return
    steps, moved = plan.gradient_accumulation_steps, s.shard - s.on_gpu
    yield "GPU to host", "fp32 gradients, once per step", MASTER_BYTES * moved
    yield "host to GPU", "updated weights, once per step", s.element_bytes * moved * (plan.offload_param == "none")
    if plan.stage == _PARAMETER_STAGE:
        purpose = "accumulated gradients, in each micro step"
        yield "GPU to host", purpose, steps * s.gradient_bytes * s.shard
        yield "host to GPU", purpose, steps * s.gradient_bytes * s.shard
    elif plan.stage == _PARAMETER_STAGE - 1 and steps > 1:
        purpose = "accumulated gradients, in each micro step"
        yield "GPU to host", purpose, steps * s.gradient_bytes * s.touched
        yield "host to GPU", purpose, (steps - 1) * s.gradient_bytes * s.touched
    if plan.offload_optimizer == "nvme" and plan.stage == _PARAMETER_STAGE:
        states = MASTER_BYTES * moved + s.moments_bytes * moved // max(1, s.shard)
        yield "NVMe to host", "optimizer states and gradients, once per step", states + MASTER_BYTES * moved
        yield "host to NVMe", "optimizer states and gradients, once per step", states + MASTER_BYTES * moved


def _parameters(plan: Plan, s: Sizes, gathered: int) -> Iterator[tuple[TransferRoute, str, int]]:
    """A rank's share of what is gathered comes up for each gather, through NVMe's buffers where it lies there."""
    if plan.offload_param == "none":
        return
    share = plan.gradient_accumulation_steps * s.element_bytes * ceil_div(gathered, s.world_size)
    yield "host to GPU", "weights for their gathers, in each micro step", share
    if plan.offload_param == "nvme":
        yield "NVMe to host", "weights for their gathers, in each micro step", share
        yield "host to NVMe", "updated weights, once per step", s.element_bytes * s.shard
