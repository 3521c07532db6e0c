"""A frozen model beside the one that trains (``--frozen-params``): the reference model of DPO or GRPO.

As TRL prepares it (trl/models/utils.py: prepare_deepspeed): at stage 3 with an engine of its own and the same
configuration, so that its weights are partitioned and gathered where they are used; at the other stages with ZeRO off,
whole on each GPU. It computes one forward pass per micro step, and keeps nothing for backward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from zeroconf.estimate.sizes import Sizes
    from zeroconf.types import Plan

_PARAMETER_STAGE: Final = 3


def shard_bytes(s: Sizes, plan: Plan) -> int:
    """Its weights on one rank, wherever they are: 7e9 in bf16 on 8 GPUs, 14e9 bytes, or 1.75e9 at stage 3."""
    partitioned = plan.stage == _PARAMETER_STAGE
    return s.element_bytes * (ceil_div(s.reference, s.world_size) if partitioned else s.reference)


def held_bytes(s: Sizes, plan: Plan) -> int:
    """What of it stays on the GPU; offload of parameters takes its shards to the host too."""
    return shard_bytes(s, plan) if plan.offload_param == "none" else 0


def host_bytes(s: Sizes, plan: Plan) -> int:
    """What of it stays on the host, per rank."""
    return shard_bytes(s, plan) - held_bytes(s, plan)


def gathered_bytes(s: Sizes, plan: Plan) -> int:
    """What its forward pass gathers at most at stage 3: as much as the prefetcher takes, and a largest tensor.

    The activations of the model that trains are there already (DPO). 7e9, live limit 1e9: 1e9 + 525e6 elements.
    """
    if plan.stage != _PARAMETER_STAGE or not s.gathers(plan):
        return 0
    ahead = plan.max_live_parameters if plan.prefetch_bucket_size else 0
    return s.element_bytes * min(s.reference, ahead + s.largest_gathered)
