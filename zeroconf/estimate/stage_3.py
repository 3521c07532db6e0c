"""Stage 3: weights, gradients and states are partitioned, and weights gathered where they are used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeroconf.estimate.moments import StateMoments
from zeroconf.estimate.optimizers import MASTER_BYTES
from zeroconf.estimate.stages_1_and_2 import FP64
from zeroconf.types import MemoryParts
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from zeroconf.estimate.sizes import Sizes
    from zeroconf.types import Plan

_AUTOCAST: Final = 2
_SMALLEST_SWAP_BYTES: Final = 2**20


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
        optimizer_states=_on_gpu(s, plan, _optimizer_bytes(s, plan) * s.shard),
        buffers=_bucket_bytes(s, plan),
    )
    secondary = _secondary_bytes(s, plan, s.trainable, trained)
    kept = _secondary_bytes(s, plan, 0, trained)
    forward, start, end = (b * elements + secondary for elements in live_elements(s, plan))
    steady = replace(steady, gathered_parameters=kept)
    filled = s.filled
    unswapped = _unswapped_bytes(s, plan)
    # fp32 gradients that stay on the GPU are most where the last parameters are gathered
    computed = max(0.0, 1 - end / (b * s.total)) if unswapped else filled / max(1, s.trainable)
    return StateMoments(
        init=_init(s, plan, replace(steady, parameters=weights, gathered_parameters=secondary)),
        steady=steady,
        forward=replace(steady, gathered_parameters=forward),
        backward_start=replace(steady, gathered_parameters=start),
        backward_end=replace(
            steady,
            gathered_parameters=end,
            gradients=steady.gradients + _fresh_bytes(s, plan, filled),
            temporaries=s.communication_bytes * filled + _offloading_bytes(s, plan, filled) + int(computed * unswapped),
            activations=s.tied_bytes,
        ),
        computed=computed,
        step=_step(s, plan, steady, replace(steady, parameters=weights), secondary),
    )


def _fresh_bytes(s: Sizes, plan: Plan, filled: int) -> int:
    """Gradients as autograd made them: the last one; without contiguous_gradients all that wait for their reduction.

    One beyond the bucket is reduced by itself, where it lies.
    """
    last = max(s.largest, s.experts) if s.largest > s.bucket else min(s.largest, s.largest_inner)
    return s.element_bytes * (last + (0 if plan.contiguous_gradients else filled))


def _secondary_bytes(s: Sizes, plan: Plan, trainable: int, trained: int) -> int:
    """The secondary shards of hpZ (partition_parameters.py: _partition_param_sec), from the first forward to the step.

    invalidate_secondary_tensor frees those of trainable parameters only: frozen ones keep theirs from init on.
    8.03e9 parameters, groups of 8: 2.0e9 bytes.
    """
    if plan.zero_hpz_partition_size == 1:
        return 0
    return (s.element_bytes * (s.total - s.trainable) + trained * trainable) // plan.zero_hpz_partition_size


def _offloading_bytes(s: Sizes, plan: Plan, filled: int) -> int:
    """A reduced bucket's pieces on their way to the host: partition_grads' copies, and their casts to fp32."""
    if plan.offload_optimizer == "none":
        return 0
    return (s.gradient_bytes + MASTER_BYTES) * ceil_div(filled, s.world_size)


def _unswapped_bytes(s: Sizes, plan: Plan) -> int:
    """Fp32 gradients that the NVMe swapper leaves on the GPU until the step: pieces under 1 MiB.

    swap_tensor/optimizer_utils.py: MIN_AIO_BYTES, OptimizerStateSwapInfo.unswapped_gradients.
    """
    piece = MASTER_BYTES * ceil_div(s.largest_inner, s.world_size)
    return MASTER_BYTES * s.shard if plan.offload_optimizer == "nvme" and piece < _SMALLEST_SWAP_BYTES else 0


def _optimizer_bytes(s: Sizes, plan: Plan) -> int:
    """Master, states and, where ``ratio`` leaves sub-groups on the GPU, their fp32 gradients."""
    return MASTER_BYTES + s.state_bytes + (0 if plan.offload_optimizer == "none" else MASTER_BYTES)


def _bucket_bytes(s: Sizes, plan: Plan) -> int:
    """IPGBucketZ3.buffer, one for each type that is communicated: two with torch_autocast."""
    if not plan.contiguous_gradients:
        return 0
    return (s.communication_bytes + (_AUTOCAST if plan.torch_autocast else 0)) * s.bucket


def _on_gpu(s: Sizes, plan: Plan, size: int) -> int:
    """What offload leaves on the GPU: nothing, or with ``ratio`` the first sub-groups (_create_fp32_partitions)."""
    if plan.offload_optimizer == "none":
        return size
    staying = int((1 - plan.offload_ratio) * s.num_sub_groups)
    return size * staying // s.num_sub_groups


def live_elements(s: Sizes, plan: Plan) -> tuple[int, int, int]:
    """Gathered parameters, at most: in forward, when backward starts, when gradients are reduced.

    zero/partitioned_param_coordinator.py, _fetch_sub_module_impl: after every module the prefetcher takes whole
    tensors until ``stage3_max_live_parameters`` is passed, and ends up to one tensor beyond, in forward the output
    matrix; without prefetching only the module that computes is there. __params_to_release keeps trailing layers
    within half of ``stage3_max_reuse_distance``. Gradients that fill the bucket belong to parameters released before.
    A mixture's experts are indexed, not passed to the linear function that DeepSpeed replaces (zero/linear.py), so that
    autograd keeps their gathered weights until backward, beside those gathered then, unless activations are
    checkpointed. Llama-3-8B, live limit 1e9: 1e9 + 525e6 elements, 3.05e9 bytes.
    """
    if s.world_size == 1:
        # _no_gather_coalesced: the only shard is the parameter
        return 0, 0, 0
    rest = s.total - s.persistent - s.persistent_adapters
    reused = plan.max_reuse_distance // 2
    ahead = plan.max_live_parameters if plan.prefetch_bucket_size else 0
    # the flat copy of the last tensors that were gathered together (AllGatherCoalescedHandle.wait)
    copied = min(rest, plan.prefetch_bucket_size + s.last) if ahead >= rest else 0
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
    left = 0 if s.release.releases_leftovers or s.world_size == 1 else s.element_bytes * s.first
    begun = replace(held, gathered_parameters=secondary + left)
    held = replace(held, gathered_parameters=secondary)
    if plan.offload_optimizer != "none":
        return max(replace(held, temporaries=_unswapped_bytes(s, plan)), begun, ended, key=_total)
    cast = 0 if s.gradient_bytes == MASTER_BYTES else s.gradient_bytes * s.sub_group
    updating = s.optimizer.temporary_bytes * s.sub_group
    overflow = (s.gradient_bytes + 1) * s.shard if s.fp16 else 0
    working = MASTER_BYTES * s.sub_group + max(cast, updating)
    temporaries = max(working, FP64 * ceil_div(s.largest, s.world_size), overflow)
    return max(replace(held, temporaries=temporaries), ended, key=_total)


def _init(s: Sizes, plan: Plan, held: MemoryParts) -> MemoryParts:
    """The most of: building the model, a sub-group's second fp32 copy, hooks on a gathered tensor.

    create_reduce_and_remove_grad_hooks gathers each parameter when weights, masters, buffers and gradients are there,
    offloaded ones by way of their shard. ``held`` is the steady state without persistent parameters.
    """
    masters = replace(held, optimizer_states=_on_gpu(s, plan, MASTER_BYTES * s.shard))
    copied = MASTER_BYTES if s.release.copies_masters_in_fp32 else s.element_bytes
    converting = replace(masters, gradients=0, buffers=0, temporaries=_on_gpu(s, plan, copied * s.sub_group))
    gathered = s.largest if s.world_size > 1 else 0
    if not s.release.gathers_in_place:
        gathered *= 2
    elif plan.offload_param != "none":
        gathered += ceil_div(s.largest, s.world_size)
    hooks = replace(masters, temporaries=s.element_bytes * gathered)
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
