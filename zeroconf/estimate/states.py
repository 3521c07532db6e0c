"""Model states, buffers and temporaries on one GPU, moment by moment, as DeepSpeed 0.19 allocates them.

Each function gives the moments of one stage without activations. Formulas were read in the modules that the
docstrings name and agree with allocations counted in DeepSpeed 0.19.8 (see tests/estimate/test_states.py).
The backward moment is given twice: at its start, when all activations are alive, and at its end, when all
gradients are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from zeroconf.estimate.sizes import MASTER_BYTES, Sizes
from zeroconf.types import MemoryParts, Plan

# engine.py: allreduce_bucket flattens gradients in buckets of 5e8 elements at stage 0
STAGE_0_BUCKET: Final = 500_000_000
_FP64: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMoments:
    """The parts at each moment, activations not included."""

    init: MemoryParts
    steady: MemoryParts
    backward_start: MemoryParts
    backward_end: MemoryParts
    step: MemoryParts


def state_moments(sizes: Sizes, plan: Plan) -> StateMoments:
    """The moments of the plan's stage."""
    if plan.stage == 0:
        return _stage_0(sizes, plan)
    if plan.stage == 3:
        return _stage_3(sizes, plan)
    return _stage_1_and_2(sizes, plan)


def _stage_0(s: Sizes, plan: Plan) -> StateMoments:
    """fp16/fused_optimizer.py: FP16_Optimizer (also for bf16); the plain optimizer in fp32.

    In 16 bit the step holds the gradients, a list of fp32 casts and their flat copy: 24 bytes per parameter
    with Adam. 8.03e9 parameters: 192.7e9 bytes.
    """
    b, t = s.element_bytes, s.trainable
    master = 0 if b == MASTER_BYTES else MASTER_BYTES * t
    steady = MemoryParts(parameters=b * s.total, optimizer_states=master + s.state_bytes * t)
    gradients = replace(steady, gradients=b * t)
    casts = 0 if b == MASTER_BYTES else 2 * MASTER_BYTES * t
    return StateMoments(
        init=MemoryParts(parameters=b * s.total)
        if b == MASTER_BYTES
        else replace(steady, temporaries=MASTER_BYTES * t),
        steady=steady,
        backward_start=gradients if plan.gradient_accumulation_steps > 1 else steady,
        backward_end=replace(gradients, buffers=b * min(t, STAGE_0_BUCKET)),
        step=replace(gradients, temporaries=casts),
    )


def _stage_1_and_2(s: Sizes, plan: Plan) -> StateMoments:
    """zero/stage_1_and_2.py: DeepSpeedZeroOptimizer.

    Terms: bit16_groups_flat (parameters), single_partition_of_fp32_groups and the optimizer's tensors,
    setup_buckets (one reduce bucket, two with overlap_comm), allreduce_bucket's flat copy,
    copy_grads_in_partition (whole tensors that touch the shard), the step's flatten and fp32 cast, and
    get_grad_norm_direct's fp64 copy of the largest piece.
    """
    b, offload = s.element_bytes, plan.offload_optimizer != "none"
    accumulates = plan.gradient_accumulation_steps > 1
    early = plan.stage == 2 or (plan.overlap_comm and not accumulates)
    states = 0 if offload else (MASTER_BYTES + s.state_bytes) * s.shard
    steady = MemoryParts(
        parameters=b * s.total,
        optimizer_states=states,
        buffers=b * s.largest if offload else 0,
    )
    bucket = b * s.bucket * (2 if plan.overlap_comm else 1)
    flat = b * min(s.bucket, s.trainable) + (b * s.largest if s.largest > s.bucket else 0)
    kept = 0 if offload else b * s.touched
    buffered = replace(steady, buffers=steady.buffers + bucket)
    if early:
        accumulated = kept if accumulates else 0
        backward_start = replace(buffered, gradients=accumulated)
        backward_end = replace(buffered, gradients=kept + accumulated, temporaries=flat)
    else:
        # gradients wait for the end of the step; between micro steps the bucket and one tensor stay too
        whole, waiting = b * s.trainable, b * s.largest if accumulates else 0
        held = replace(buffered, buffers=buffered.buffers + waiting)
        backward_start = replace(held, gradients=whole if accumulates else 0)
        backward_end = replace(held, gradients=whole, temporaries=max(0, kept - b * min(s.bucket, s.trainable)))
    piece = min(s.largest, s.shard)
    if offload:
        step = replace(steady, temporaries=(_FP64 + MASTER_BYTES) * piece)
    else:
        flatten = MASTER_BYTES * s.shard + (0 if b == MASTER_BYTES else b * s.shard)
        step = replace(steady, gradients=kept, temporaries=max(flatten, _FP64 * piece))
    master_twice = b * s.total + 2 * MASTER_BYTES * (0 if offload else s.shard)
    init = max(b * s.total + b * s.trainable, master_twice)
    return StateMoments(
        init=MemoryParts(parameters=b * s.total, temporaries=init - b * s.total),
        steady=steady,
        backward_start=backward_start,
        backward_end=backward_end,
        step=step,
    )


def _stage_3(s: Sizes, plan: Plan) -> StateMoments:
    """zero/stage3.py: DeepSpeedZeroOptimizer_Stage3, built under zero.Init.

    Terms: lp_param_buffer (parameters), grad_partitions_flat_buffer, fp32 partitions and the optimizer's
    tensors, IPGBucketZ3.buffer (allocated once, never freed), gathered parameters up to the live limit, the
    reduce-scatter's concatenation, hpZ's secondary copy, and _prepare_fp32_grad_for_sub_group in the step.
    """
    b = s.element_bytes
    on_host = plan.offload_optimizer != "none"
    weights = 0 if plan.offload_param != "none" else b * (s.shard + s.frozen_shard)
    secondary = 0
    if plan.zero_hpz_partition_size > 1:
        secondary = b * s.total // plan.zero_hpz_partition_size
    # fp32 weights get a second fp32 copy: the alias test compares torch.device with a string
    steady = MemoryParts(
        parameters=weights + b * s.persistent,
        gradients=0 if on_host else b * s.shard,
        optimizer_states=0 if on_host else (MASTER_BYTES + s.state_bytes) * s.shard,
        buffers=b * s.bucket,
    )
    gathered = replace(steady, gathered_parameters=b * s.live + secondary)
    # a gradient beyond the bucket is concatenated for its own reduce-scatter
    reduce_scatter = b * max(min(s.bucket, s.trainable), s.largest) + b * s.largest
    if on_host:
        temporaries = MASTER_BYTES * min(s.sub_group, s.largest)
    else:
        cast = 0 if b == MASTER_BYTES else b * s.sub_group
        temporaries = max(cast + MASTER_BYTES * s.sub_group, _FP64 * s.largest // s.world_size)
    init = weights + b * s.largest + (0 if on_host else MASTER_BYTES * (s.shard + s.sub_group))
    return StateMoments(
        init=MemoryParts(parameters=weights, temporaries=init - weights),
        steady=steady,
        backward_start=gathered,
        backward_end=replace(gathered, temporaries=reduce_scatter),
        step=replace(steady, gathered_parameters=secondary, temporaries=temporaries),
    )
