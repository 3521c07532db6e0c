"""Stages 1 and 2: the optimizer's states are partitioned, at stage 2 the reduced gradients too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeroconf.estimate.moments import Backward, StateMoments
from zeroconf.estimate.optimizers import MASTER_BYTES
from zeroconf.types import MemoryParts

if TYPE_CHECKING:
    from zeroconf.estimate.sizes import Sizes
    from zeroconf.types import Plan

FP64: Final = 8
_MASKS_BYTES: Final = 7


def bf16_optimizer(s: Sizes, plan: Plan) -> StateMoments:
    """bf16_optimizer.py, BF16_Optimizer: fp32 gradients of the whole model stay allocated.

    Steady 6 + 12/N bytes per parameter with Adam against 2 + 12/N without ``grad_accum_dtype``. Backward adds the bf16
    gradients, which stay until the step, and their copy for the all-reduce. 8.03e9 parameters on 8 GPUs: 60.2e9 bytes
    steady. At stage 0 the engine zeroes the bf16 gradients and keeps them (engine.py: _take_model_step).
    """
    b, t = s.element_bytes, s.trainable
    states = MASTER_BYTES * s.shard + s.optimizer.states_bytes(s.shard)
    init = MemoryParts(parameters=b * s.total, gradients=MASTER_BYTES * t, optimizer_states=MASTER_BYTES * s.shard)
    both = replace(init, gradients=init.gradients + b * t, optimizer_states=states)
    steady = both if plan.stage == 0 else replace(init, optimizer_states=states)
    # fp32 communication sends the gradients as they are, one tensor at a time
    copy = b * t if s.communication_bytes == b else MASTER_BYTES * s.largest
    accumulated = both if plan.gradient_accumulation_steps > 1 else steady
    return StateMoments(
        init=init,
        steady=steady,
        forward=accumulated,
        backward_start=accumulated,
        backward_end=replace(both, temporaries=copy, activations=2 * s.tied_bytes),
        step=replace(both, temporaries=s.optimizer.temporary_bytes * s.shard),
    )


def stages_1_and_2(s: Sizes, plan: Plan) -> StateMoments:
    """zero/stage_1_and_2.py, DeepSpeedZeroOptimizer: flat groups, gradients reduced in buckets.

    Weights are bit16_groups_flat, states single_partition_of_fp32_groups and the optimizer's tensors; with offload
    both are on the host, and temp_grad_buffer_for_gpu_offload of the largest tensor is on the GPU.
    """
    offload = plan.offload_optimizer != "none"
    steady = MemoryParts(
        parameters=s.element_bytes * s.total,
        optimizer_states=0 if offload else MASTER_BYTES * s.shard + s.moments_bytes,
        buffers=s.element_bytes * s.largest if offload else 0,
    )
    accumulates = plan.gradient_accumulation_steps > 1
    early = plan.stage == 2 or (plan.overlap_comm and not accumulates)
    if early:
        forward, backward_end, computed = _reduced_early(s, plan, steady)
    else:
        forward, backward_end, computed = _reduced_late(s, plan, steady)
    casts = s.autocast_cache
    tied = s.tied_bytes if early else 2 * s.tied_bytes
    return StateMoments(
        init=_init(s, steady),
        steady=steady,
        forward=replace(forward, activations=casts),
        backward_start=replace(forward, activations=casts),
        backward_end=replace(backward_end, activations=int(casts * (1 - computed)) + tied),
        computed=computed,
        backward_others=_blocks_at_work(s, plan, steady) if early else (),
        # a micro step before the last one ends with what accumulates
        step=max(_step(s, steady, offload=offload), forward, key=lambda parts: parts.total),
    )


def _bucket_bytes(s: Sizes, plan: Plan) -> int:
    """setup_buckets: one, two with overlap_comm, none without contiguous_gradients (offload forces them).

    torch_autocast has one for each type that it communicates, both as wide as the model.
    """
    if not plan.contiguous_gradients and plan.offload_optimizer == "none":
        return 0
    return s.element_bytes * s.bucket * (2 if plan.overlap_comm else 1) * (2 if plan.torch_autocast else 1)


def _flat_bytes(s: Sizes, plan: Plan) -> int:
    """The copies that average_tensor sends: allreduce_bucket's flat one, and its cast to another type."""
    flat = s.element_bytes * s.filled if plan.reduce_scatter else 0
    cast = s.communication_bytes * s.filled if s.communication_bytes != s.element_bytes else 0
    return flat + cast


def _kept_bytes(s: Sizes, plan: Plan) -> int:
    """Gradients that stay until the step: copy_grads_in_partition's whole tensors, or the fp32 shard.

    _build_compact_grad_partition_buffer makes the latter when gradients accumulate in fp32.
    """
    if plan.offload_optimizer != "none":
        return 0
    if s.gradient_bytes != s.element_bytes:
        return s.gradient_bytes * s.shard
    return s.element_bytes * s.touched


def _reduced_early(s: Sizes, plan: Plan, steady: MemoryParts) -> tuple[MemoryParts, MemoryParts, float]:
    """Stage 2, and stage 1 with overlap_comm: a full bucket is reduced during backward.

    Pieces are cast before they are added to an fp32 shard, and to fp64 for their norm before offload takes them
    (set_norm_for_param_grad_in_gpu). A gradient larger than the bucket passes it by: the last one, the vocabulary's,
    is there with what was kept before, and flat copies of the bucket's size (allreduce_and_scatter). Llama-3-70B's
    1.05e9 elements in bf16: 2.1e9 bytes each, the copy 1e9.

    """
    kept = _kept_bytes(s, plan)
    compact = s.gradient_bytes != s.element_bytes
    accumulated = kept if plan.gradient_accumulation_steps > 1 else 0
    piece = min(s.largest, s.shard)
    casts = s.gradient_bytes * piece if compact else 0
    passing = s.largest > s.bucket
    oversized = s.element_bytes * s.largest if passing else 0
    # offload clones an oversized gradient before its reduction
    norm = max(FP64 * piece, _overflow_bytes(s, s.largest), oversized) if plan.offload_optimizer != "none" else 0
    flat = max(_flat_bytes(s, plan), s.element_bytes * s.bucket if passing and plan.reduce_scatter else 0)
    forward = replace(steady, gradients=accumulated)
    backward_end = replace(
        steady,
        gradients=(kept if compact else kept + accumulated) + oversized,
        buffers=steady.buffers + _bucket_bytes(s, plan),
        temporaries=max(flat + casts, norm),
    )
    if waiting := _waiting_bytes(s, plan, s.oversized * s.shard // max(1, s.trainable)):
        accumulating = replace(backward_end, gradients=waiting, temporaries=max(flat + casts, oversized))
        backward_end = max(backward_end, accumulating, key=lambda parts: parts.total)
    return forward, backward_end, 1.0 if passing else s.filled / max(1, s.trainable)


def _waiting_bytes(s: Sizes, plan: Plan, oversized: int) -> int:
    """``oversized`` elements of the rank's part, larger than the bucket, that offload keeps until a micro step ends.

    Where it is not the last one no norm is taken (async_accumulate_grad_in_cpu_via_gpu); smaller ones are views of the
    bucket. Llama-2-7B, buckets of 16.8e6, one GPU: the MLPs' and the vocabulary's, 9.2e9 bytes.
    """
    if plan.offload_optimizer == "none" or plan.gradient_accumulation_steps == 1:
        return 0
    return s.element_bytes * oversized


def _blocks_at_work(s: Sizes, plan: Plan, steady: MemoryParts) -> tuple[Backward, ...]:
    """A block at work on rank 0 when the gradients that it keeps are there, those of the first blocks.

    copy_grads_in_partition makes room for all of them with the first. Llama-3-8B in bf16 on 8 GPUs: 2.1e9 bytes from
    the third block on. With offload, the first block beside those that wait, neither the vocabulary's nor its own.
    """
    compact = s.gradient_bytes != s.element_bytes
    passes = 1 if compact or plan.gradient_accumulation_steps == 1 else 2
    gradients, buffers = passes * _kept_bytes(s, plan), steady.buffers + _bucket_bytes(s, plan)
    parts = replace(steady, gradients=gradients, buffers=buffers, activations=s.tied_bytes)
    kept = Backward(parts=parts, computed=1 - s.shard / max(1, s.trainable), working=True)
    vocabulary = s.largest if s.largest > s.bucket else 0
    before = max(0, s.shard - vocabulary - s.layer) / max(1, s.trainable - vocabulary)
    if waiting := _waiting_bytes(s, plan, int((s.oversized - vocabulary) * before)):
        first = Backward(parts=replace(parts, gradients=waiting), computed=1 - min(1, s.layer / s.total), working=True)
        return kept, first
    return (kept,)


def _reduced_late(s: Sizes, plan: Plan, steady: MemoryParts) -> tuple[MemoryParts, MemoryParts, float]:
    """Stage 1: all gradients wait for the last micro step, where they are copied to the bucket one by one.

    Between micro steps the bucket stays too; a new gradient is there before it is added. The first block is still at
    work.
    """
    whole, bucket = s.gradient_bytes * s.trainable, _bucket_bytes(s, plan)
    accumulates = plan.gradient_accumulation_steps > 1
    waiting = s.element_bytes * s.largest if accumulates else 0
    held = bucket if accumulates else 0
    forward = replace(steady, gradients=whole if accumulates else 0, buffers=steady.buffers + held)
    norm = max(FP64 * min(s.largest, s.shard), _overflow_bytes(s, s.largest)) if plan.offload_optimizer != "none" else 0
    copied = max(0, max(_kept_bytes(s, plan), norm, _flat_bytes(s, plan)) - s.element_bytes * s.filled)
    backward_end = replace(
        steady,
        gradients=whole,
        buffers=steady.buffers + bucket + waiting,
        # gradients leave for the bucket, the kept copy or their norm; without a bucket they stay, beside its flat copy
        temporaries=copied if bucket else _flat_bytes(s, plan),
    )
    return forward, backward_end, 1 - min(1, s.layer / s.total)


def _step(s: Sizes, steady: MemoryParts, *, offload: bool) -> MemoryParts:
    """step: the shard's gradients flattened and cast to fp32, or get_grad_norm_direct's fp64 copy of a piece."""
    b = s.element_bytes
    piece = min(s.largest, s.shard)
    if offload:
        return replace(steady, temporaries=0 if s.release.stages_offloaded_weights else MASTER_BYTES * s.shard)
    if s.gradient_bytes != b:
        # already flat and in fp32
        kept, flatten, updating = s.gradient_bytes * s.shard, 0, s.optimizer.temporary_bytes * s.shard
    else:
        kept = b * s.touched
        flatten = MASTER_BYTES * s.shard + (0 if b == MASTER_BYTES else b * s.shard)
        updating = (MASTER_BYTES + s.optimizer.temporary_bytes) * s.shard - kept
    orthogonal = b * s.muon.touched if s.muon else 0
    overflow = _overflow_bytes(s, piece) if s.fp16 else 0
    return replace(steady, gradients=kept, temporaries=max(flatten, FP64 * piece, updating, overflow) + orthogonal)


def _overflow_bytes(s: Sizes, elements: int) -> int:
    """_has_inf_or_nan of a gradient, in older releases: its fp32 copy, three masks, the last one in fp32."""
    if s.release.reduces_overflow_first:
        return 0
    return (_MASKS_BYTES + (0 if s.element_bytes == MASTER_BYTES else MASTER_BYTES)) * elements


def _init(s: Sizes, steady: MemoryParts) -> MemoryParts:
    """The weights of a group twice while flattened on the GPU, or the fp32 shard and a gradient of its size."""
    group = s.muon.largest_group if s.muon else s.trainable
    flat = s.element_bytes * group if s.release.flattens_on_gpu else 0
    flattening = MemoryParts(parameters=steady.parameters + flat)
    shard = MASTER_BYTES * s.shard if steady.optimizer_states else 0
    states = replace(steady, optimizer_states=shard, temporaries=shard)
    return max(flattening, states, key=lambda parts: parts.total)
