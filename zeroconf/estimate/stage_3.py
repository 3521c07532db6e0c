"""Stage 3: weights, gradients and states are partitioned, and weights gathered where they are used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.estimate.moments import Backward, StateMoments
from zeroconf.estimate.optimizers import MASTER_BYTES, optimizer_memory
from zeroconf.estimate.stages_1_and_2 import FP64
from zeroconf.types import MemoryParts
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.estimate.sizes import Sizes
    from zeroconf.types import Plan

_AUTOCAST: Final = 2
_SMALLEST_SWAP_BYTES: Final = 2**20
_NORM_ELEMENTS: Final = 250_000_000


def stage_3(s: Sizes, plan: Plan) -> StateMoments:
    """zero/stage3.py, DeepSpeedZeroOptimizer_Stage3.

    Weights are lp_param_buffer and, from their first use on, the persistent ones; gradients
    grad_partitions_flat_buffer; buffers IPGBucketZ3.buffer, allocated once. In fp32 a second copy of the weights is
    made for the optimizer all the same (_create_fp32_partitions compares a torch.device with a string): 20 bytes per
    shard element with Adam. Adapters beside frozen weights keep the fp32 that peft gives them with zero.Init, since the
    engine casts no partitioned model.
    """
    b = s.element_bytes
    trained = MASTER_BYTES if s.trainable < s.total and plan.zero_init else b
    weights = 0 if plan.offload_param != "none" else trained * s.shard + b * s.frozen_shard
    steady = MemoryParts(
        parameters=weights + b * s.persistent + trained * s.persistent_adapters,
        gradients=s.gradient_bytes * s.shard if plan.offload_optimizer == "none" else 0,
        optimizer_states=_master_bytes(plan) * s.on_gpu + s.moments_bytes * s.on_gpu // s.shard,
        buffers=_bucket_bytes(s, plan),
    )
    secondary = _secondary_bytes(s, plan, s.trainable, trained)
    kept = _secondary_bytes(s, plan, 0, trained)
    forward, start, end = (b * elements + secondary for elements in live_elements(s, plan))
    masters = _master_bytes(plan) * s.on_gpu + (s.muon.momentum_bytes if s.muon and s.on_gpu else 0)
    begun = replace(steady, parameters=weights, optimizer_states=masters, gathered_parameters=secondary)
    steady = replace(steady, buffers=steady.buffers + (s.muon.cached_bytes if s.muon else 0), gathered_parameters=kept)
    # fp32 gradients that stay on the GPU are most where the last parameters are gathered
    late = max(0.0, 1 - end / (b * s.total))
    computed = late if _unswapped_bytes(s, plan) else s.reduced / max(1, s.trainable)
    reducing = _reducing(s, plan, steady, computed, _fullest(s, plan))
    filled = s.first_filled / max(1, s.trainable)
    first = _reducing(s, plan, steady, filled, _of_bucket(s, plan, s.first_filled))
    return StateMoments(
        init=_init(s, plan, begun),
        steady=steady,
        forward=replace(steady, gathered_parameters=forward),
        backward_start=replace(steady, gathered_parameters=start),
        backward_end=replace(reducing, gathered_parameters=end),
        backward_others=(
            _first_backward(s, plan, begun),
            Backward(parts=replace(first, gathered_parameters=end), computed=filled),
            _last_block(s, plan, steady, secondary),
            *_vocabulary(s, plan, steady, secondary, end),
        ),
        computed=computed,
        step=_step(s, plan, steady, replace(steady, parameters=weights), secondary),
    )


def _last_block(s: Sizes, plan: Plan, steady: MemoryParts, secondary: int) -> Backward:
    """When the first block's gradients are reduced: what is gathered for them, and the first vocabulary matrix.

    Adapters have no bucket of that size. Llama-3-70B, live limit 1e9: 0.86e9 + 1.05e9 elements, 3.81e9 bytes.
    """
    full = s.gathers(plan) and s.trainable == s.total
    gathered = min(s.total - s.persistent, s.last_gathered + s.first) if full else 0
    computed = 1 - (s.last_gathered + s.first) / s.total
    reducing = _reducing(s, plan, steady, computed, _of_bucket(s, plan, s.last_filled))
    parts = replace(reducing, gathered_parameters=s.element_bytes * gathered + secondary)
    return Backward(parts=parts, computed=computed)


def _first_backward(s: Sizes, plan: Plan, begun: MemoryParts) -> Backward:
    """The first step's backward, before the optimizer makes its states: nothing is prefetched or reused yet.

    partitioned_param_coordinator.py: the trace is incomplete. So a block's experts are gathered together, by way of a
    flat copy (AllGatherCoalescedHandle.wait), beside all that autograd saved. Mixtral-8x7B with 2 blocks: 4 x 1.41e9
    elements, 11.3e9 bytes.
    """
    flat = s.experts if s.world_size > 1 else 0
    gathered = s.experts + flat + s.saved_experts if s.gathers(plan) else 0
    parts = replace(begun, gathered_parameters=begun.gathered_parameters + s.element_bytes * gathered)
    return Backward(parts=parts, computed=0.0)


def _vocabulary(s: Sizes, plan: Plan, steady: MemoryParts, secondary: int, end: int) -> Iterator[Backward]:
    """With offload, a vocabulary matrix's gradient that is reduced, copied back and cast.

    The input's comes when all others are gone, and nothing is left to prefetch. The output's is the first, and where it
    is larger than the bucket it waits for the next one as autograd made it; what was gathered (``end`` bytes) has then
    lost the matrix, and a block at most is there for it.
    """
    if plan.offload_optimizer == "none" or s.trainable < s.total:
        return
    b, gathers = s.element_bytes, s.gathers(plan)
    beyond = s.first if s.first > s.bucket else 0
    # reduce_scatter_coalesced copies no gradient that is alone
    alone = beyond or (s.final == s.first and s.first % s.world_size == 0)
    last = _reducing(s, plan, steady, 1.0, _reduction(s, plan, beyond, 0 if alone else s.final, s.first))
    whole = b * s.first if gathers else 0
    yield Backward(parts=replace(last, gathered_parameters=whole + secondary, activations=0), computed=1.0)
    if beyond and not s.tied_bytes:
        computed = s.first / s.trainable
        first = _reducing(s, plan, steady, computed, _reduction(s, plan, beyond, 0, s.first))
        reused = min(end, b * (plan.max_reuse_distance // 2))
        whole = max(end - b * (s.first - s.layer), reused) if gathers else secondary
        yield Backward(parts=replace(first, gathered_parameters=whole), computed=computed)


class _Reduction(NamedTuple):
    """Bytes of gradients as autograd made them and of the bucket's flat copy; elements of the largest gradient."""

    fresh: int
    flat: int
    largest: int


def _reduction(s: Sizes, plan: Plan, gradient: int, bucket: int, largest: int) -> _Reduction:
    """Gradients as autograd made them, the last and without contiguous_gradients all; and the bucket's flat copy."""
    fresh = gradient + (0 if plan.contiguous_gradients else bucket)
    return _Reduction(s.element_bytes * fresh, s.communication_bytes * bucket, largest)


def _of_bucket(s: Sizes, plan: Plan, bucket: int) -> _Reduction:
    """A bucket's, which an output matrix's gradient waits in for others, unless it is tied or does not go in."""
    inner = min(s.largest, s.largest_inner)
    output_waits = s.largest <= s.bucket and not s.tied_bytes and not _unswapped_bytes(s, plan)
    return _reduction(s, plan, min(inner, s.bucket), bucket, s.largest if output_waits else inner)


def _fullest(s: Sizes, plan: Plan) -> _Reduction:
    """The fullest bucket, or a gradient beyond it, reduced where it lies when what waited has been.

    A block's experts come together.
    """
    chances = [_of_bucket(s, plan, s.filled)]
    if s.largest > s.bucket:
        inner = min(s.largest, s.largest_inner)
        chances += [_reduction(s, plan, s.largest, s.waiting, inner), _reduction(s, plan, s.experts, 0, inner)]
    return max(chances, key=lambda one: one.fresh + one.flat)


def _reducing(s: Sizes, plan: Plan, steady: MemoryParts, computed: float, reduction: _Reduction) -> MemoryParts:
    """When gradients are reduced, and ``computed`` is the share of the model that had its turn."""
    unswapped = _unswapped_bytes(s, plan)
    pieces = _pieces_bytes(s, plan, unswapped, reduction.largest)
    return replace(
        steady,
        gradients=steady.gradients + reduction.fresh,
        temporaries=reduction.flat + pieces + int(computed * unswapped),
        activations=s.tied_bytes,
    )


def _secondary_bytes(s: Sizes, plan: Plan, trainable: int, trained: int) -> int:
    """The secondary shards of hpZ (partition_parameters.py: _partition_param_sec), from the first forward to the step.

    invalidate_secondary_tensor frees those of trainable parameters only: frozen ones keep theirs from init on.
    8.03e9 parameters, groups of 8: 2.0e9 bytes.
    """
    if plan.zero_hpz_partition_size == 1:
        return 0
    return (s.element_bytes * (s.total - s.trainable) + trained * trainable) // plan.zero_hpz_partition_size


def _pieces_bytes(s: Sizes, plan: Plan, unswapped: int, largest: int) -> int:
    """A reduced bucket's pieces: cast to the type they accumulate in, and on their way to the host.

    __avg_scatter_grads casts them all. With offload partition_grads copies one back, takes its norm in fp64
    (_constant_buffered_norm2) and casts it to fp32; for NVMe all are cast first. ``largest`` are the elements of the
    largest gradient. 983,552 elements on 8 ranks, accumulated in fp32: 491,776 bytes.
    """
    pieces = ceil_div(s.filled, s.world_size)
    cast = s.gradient_bytes * pieces if s.gradient_bytes != s.communication_bytes else 0
    if plan.offload_optimizer == "none":
        return cast
    one = ceil_div(largest, s.world_size)
    swapped = MASTER_BYTES * pieces if plan.offload_optimizer == "nvme" and not unswapped else 0
    return cast + swapped + s.gradient_bytes * one + max(FP64 * min(one, _NORM_ELEMENTS), MASTER_BYTES * one)


def _unswapped_bytes(s: Sizes, plan: Plan) -> int:
    """Fp32 gradients that the NVMe swapper leaves on the GPU until the step: pieces under 1 MiB.

    swap_tensor/optimizer_utils.py: MIN_AIO_BYTES, OptimizerStateSwapInfo.unswapped_gradients.
    """
    piece = MASTER_BYTES * ceil_div(s.largest_inner, s.world_size)
    return MASTER_BYTES * s.shard if plan.offload_optimizer == "nvme" and piece < _SMALLEST_SWAP_BYTES else 0


def _master_bytes(plan: Plan) -> int:
    """Master and, where ``ratio`` leaves sub-groups on the GPU, fp32 gradients (initialize_optimizer_states)."""
    return MASTER_BYTES if plan.offload_optimizer == "none" else 2 * MASTER_BYTES


def _bucket_bytes(s: Sizes, plan: Plan) -> int:
    """IPGBucketZ3.buffer, one for each type that is communicated: two with torch_autocast."""
    if not plan.contiguous_gradients:
        return 0
    return (s.communication_bytes + (_AUTOCAST if plan.torch_autocast else 0)) * s.bucket


def live_elements(s: Sizes, plan: Plan) -> tuple[int, int, int]:
    """Gathered parameters, at most: in forward, when backward starts, when gradients are reduced.

    zero/partitioned_param_coordinator.py, _fetch_sub_module_impl: after every module the prefetcher takes whole
    tensors until ``stage3_max_live_parameters`` is passed, and ends up to one tensor beyond, in forward the output
    matrix; without prefetching only the module that computes is there. __params_to_release keeps trailing layers
    within half of ``stage3_max_reuse_distance``. Gradients that fill the bucket belong to parameters released before.
    What autograd keeps of them (saved_experts) is beside those that backward gathers, but for the last block's experts
    where they are still there. Llama-3-8B, live limit 1e9: 1e9 + 525e6 elements, 3.05e9 bytes.
    """
    if not s.gathers(plan):
        return 0, 0, 0
    rest = s.total - s.persistent - s.persistent_adapters
    reused = plan.max_reuse_distance // 2
    ahead = plan.max_live_parameters if plan.prefetch_bucket_size else 0
    # the flat copy of the last tensors that were gathered together (AllGatherCoalescedHandle.wait)
    copied = min(rest, plan.prefetch_bucket_size + s.last) if ahead >= rest and s.world_size > 1 else 0
    # what computes is fetched whatever the limit: the experts of a block together
    inner = max(s.largest_inner, s.experts)
    forward = min(rest, max(ahead + max(s.last, s.experts), reused, s.module) + s.saved_experts) + copied
    # the output matrix leaves no room for others where it takes the limit alone
    start = ahead + inner if s.largest_gathered < ahead else s.largest_gathered
    start = min(rest, max(start, reused) + s.saved_experts)
    late = ahead + s.largest_inner // 2
    if s.trainable < s.total:
        # no gradient hook releases frozen weights: the output matrix and a block stay beside what is fetched
        late = max(ahead, s.largest_gathered) + s.layer + s.largest_inner
    saved = s.saved_experts * (s.trainable - s.filled) // max(1, s.trainable)
    if reused >= s.first:
        saved = max(0, saved - s.experts)
    # what was not released since forward is not there twice: if that is not all, a block's experts come beside
    held = max(ahead, reused)
    saved = min(saved, rest - held + s.experts if held < rest else s.filled)
    end = min(rest - s.filled, max(late, reused, s.module)) + saved
    if not s.saved_linear:
        return forward, start, max(0, end)
    # what the linear layers keep, beside what is gathered again of it
    kept = s.saved_linear + s.saved_experts
    again = max(0, min(s.filled, end, rest - s.retained))
    return max(forward, kept + s.largest_inner), max(start, kept), max(0, end, kept - s.filled + again)


def _step(s: Sizes, plan: Plan, steady: MemoryParts, held: MemoryParts, secondary: int) -> MemoryParts:
    """One sub-group's gradients flattened and cast to fp32 (_prepare_fp32_grad_for_sub_group), or the norm's fp64 copy.

    fp16 also tests all gradients for overflow at once (has_overflow): their absolute values and a mask. The step ends
    with the persistent parameters gathered again (_post_step).
    """
    ended = replace(steady, gathered_parameters=secondary)
    left = 0 if s.release.releases_leftovers or not s.gathers(plan) else s.element_bytes * s.first
    begun = replace(held, gathered_parameters=secondary + left)
    held = replace(held, gathered_parameters=secondary)
    orthogonalising = s.muon.working_bytes if s.muon else 0
    if plan.offload_optimizer != "none":
        # the sub-groups that ratio leaves here are updated by torch's AdamW (backup_optimizer)
        backup = optimizer_memory("torch-adamw").temporary_bytes * min(s.sub_group, s.on_gpu)
        begins = replace(ended, temporaries=_unswapped_bytes(s, plan))
        return max(begins, begun, replace(held, temporaries=max(backup, orthogonalising)), key=_total)
    cast = 0 if s.gradient_bytes == MASTER_BYTES else s.gradient_bytes * s.sub_group
    updating = s.optimizer.temporary_bytes * s.sub_group
    overflow = (s.gradient_bytes + 1) * s.shard if s.fp16 else 0
    working = MASTER_BYTES * s.sub_group + max(cast, updating)
    temporaries = max(working, FP64 * ceil_div(s.largest, s.world_size), overflow, orthogonalising)
    return max(replace(held, temporaries=temporaries), ended, key=_total)


def _init(s: Sizes, plan: Plan, held: MemoryParts) -> MemoryParts:
    """The most of: building the model, a sub-group's second fp32 copy, hooks on a gathered tensor.

    create_reduce_and_remove_grad_hooks gathers each parameter when weights, masters, buffers and gradients are there,
    offloaded ones by way of their shard. ``held`` is the steady state before the first
    step, without persistent parameters.
    """
    copied = MASTER_BYTES if s.release.copies_masters_in_fp32 else s.element_bytes
    converted = copied * min(s.sub_group, s.on_gpu)
    # a sub-group's fp32 gradients come after all masters
    masters = held.optimizer_states - (_master_bytes(plan) - MASTER_BYTES) * s.on_gpu
    converting = replace(held, optimizer_states=masters, gradients=0, buffers=0, temporaries=converted)
    gathered = s.largest if s.gathers(plan) else 0
    if not s.release.gathers_in_place:
        gathered *= 2
    elif plan.offload_param != "none":
        gathered += ceil_div(s.largest, s.world_size)
    hooks = replace(held, temporaries=s.element_bytes * gathered)
    return max(converting, hooks, _built(s, plan, held), key=_total)


def _built(s: Sizes, plan: Plan, held: MemoryParts) -> MemoryParts:
    """The model as it is built: zero.Init partitions tensor after tensor, without it all are there before the first is.

    partition_parameters.py: Init._post_init_method. Llama-3-70B in bf16: 2.1e9 bytes beside the shards, or 141e9.
    """
    tensor = s.element_bytes * s.largest_gathered
    if plan.zero_init:
        return MemoryParts(parameters=held.parameters, gathered_parameters=held.gathered_parameters, temporaries=tensor)
    return MemoryParts(parameters=s.element_bytes * s.total, temporaries=ceil_div(tensor, s.world_size))


def _total(parts: MemoryParts) -> int:
    return parts.total
