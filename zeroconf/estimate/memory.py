"""One GPU's peak memory: states, buffers and activations put together at each moment."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.estimate import activations, card, loss, reference
from zeroconf.estimate.moments import Backward
from zeroconf.estimate.rules_of_thumb import model_state_bytes
from zeroconf.estimate.states import state_moments
from zeroconf.types import Cluster, GpuMemory, MemoryParts, ModelSpec, Moment, Plan, Verdict, Workload

if TYPE_CHECKING:
    from zeroconf.estimate.sizes import Sizes

# relative error of the parts: the states' holds nine in ten peaks of benchmarks/results/memory-oracle-*.json and
# memory-real-size-*.json (memory_intervals.py), the activations' the largest error of activations-*.json (6.3 %)
STATES_ERROR: Final = 0.035
ACTIVATIONS_ERROR: Final = 0.10
# a gated block: 7 matrices and 2 norms; it saves norms 3 each, queries, keys, values, output, the MLP's 4
# (transformers' modeling_llama.py)
_WEIGHTS_PER_BLOCK: Final = 9
_SAVED_TENSORS_PER_BLOCK: Final = 14


def gpu_memory(model: ModelSpec, cluster: Cluster, workload: Workload, plan: Plan, sizes: Sizes) -> GpuMemory:
    """The four moments with all parts, the reserved peak and the bounds, in bytes.

    Forward ends, and backward starts, with all activations alive; the most weights are gathered just before the
    logits. From there a tied vocabulary matrix's gradient waits for the embedding's. Backward ends with all gradients
    and one block's activations. Gradients grow as activations shrink, so that no moment between needs more.
    """
    states = state_moments(sizes, plan)
    acts = _activations(model, workload, plan.micro_batch_size, plan.stage, checkpointing=plan.activation_checkpointing)
    saved, working = acts.saved, acts.working + sizes.dequantized_bytes
    held_bytes = sizes.absmax_bytes + reference.held_bytes(sizes, plan)
    outside = card.overhead(cluster, plan)

    def moment(parts: MemoryParts, activation_bytes: int = 0, logits_bytes: int = 0) -> MemoryParts:
        return replace(
            parts,
            parameters=parts.parameters + held_bytes,
            activations=parts.activations + activation_bytes,
            logits=logits_bytes,
            overhead=outside.value,
        )

    starts_parts, ends_parts = states.backward_start, states.backward_end
    gathered = max(starts_parts.gathered_parameters, ends_parts.gathered_parameters)
    block_parts = replace(starts_parts, buffers=ends_parts.buffers, gathered_parameters=gathered)
    starts = moment(starts_parts, saved, acts.backward_logits)
    first_block = moment(block_parts, saved + working + sizes.tied_bytes)

    def then(at: Backward) -> MemoryParts:
        if at.working:
            return moment(at.parts, int((saved - acts.ends) * (1 - at.computed)) + acts.ends + working)
        return moment(at.parts, max(acts.one_layer, int(saved * (1 - at.computed))) if at.computed < 1 else 0)

    with_reference = starts_parts.gathered_parameters + reference.gathered_bytes(sizes, plan)
    beside_reference = replace(starts_parts, gathered_parameters=with_reference)
    # before the engine casts what is not packed, and partitions it
    built = moment(MemoryParts(parameters=sizes.built_bytes))
    others = map(then, (Backward(parts=ends_parts, computed=states.computed), *states.backward_others))
    moments: dict[Moment, MemoryParts] = {
        "init": max(moment(states.init), built, key=lambda parts: parts.total),
        "forward": max(
            moment(states.forward, saved + max(0, acts.forward_working) + sizes.dequantized_bytes),
            moment(beside_reference, saved, acts.forward_logits),
            key=lambda parts: parts.total,
        ),
        "backward": max(starts, first_block, *others, key=lambda parts: parts.total),
        "step": moment(states.step),
    }
    peak = max(moments.values(), key=lambda parts: parts.total)
    allocated = peak.total - outside.value
    reserved = card.reserved_bytes(allocated, _num_tensors(model, plan))
    error = error_bytes(peak)
    return GpuMemory(
        moments=moments,
        peak_reserved_bytes=reserved + outside.value,
        low_bytes=peak.total - int(math.hypot(error, outside.value - outside.low)),
        high_bytes=reserved + outside.value + int(math.hypot(error, outside.high - outside.value)),
        textbook_bytes=int(model_state_bytes(model.num_parameters, sizes.world_size, plan.stage, workload.optimizer)),
    )


class _Activations(NamedTuple):
    """Bytes of one micro batch: activations.py and loss.py, adapters included."""

    saved: int
    one_layer: int
    forward_working: int
    working: int
    ends: int
    forward_logits: int
    backward_logits: int


@lru_cache(maxsize=1024)  # plans of one micro batch differ in stage, buckets and offload, which change nothing here
def _activations(
    model: ModelSpec, workload: Workload, micro_batch_size: int, stage: int, *, checkpointing: bool
) -> _Activations:
    of = model, workload, micro_batch_size
    adapters = activations.adapter_bytes(*of, stage)
    recomputed = adapters if checkpointing else 0
    saved_adapters = 0 if checkpointing else model.num_layers * adapters
    return _Activations(
        saved=activations.saved_bytes(*of, checkpointing=checkpointing) + saved_adapters,
        one_layer=activations.layer_bytes(*of) + adapters,
        forward_working=activations.forward_working_bytes(*of, checkpointing=checkpointing),
        working=activations.backward_working_bytes(*of, checkpointing=checkpointing) + recomputed,
        ends=activations.ends_bytes(*of),
        forward_logits=loss.logits_bytes(*of, backward=False),
        backward_logits=loss.logits_bytes(*of, backward=True),
    )


def _num_tensors(model: ModelSpec, plan: Plan) -> int:
    """Tensors alive at the peak: each block's saved activations (one with checkpointing) and its weights.

    Weights, gradients and states of stages 1 to 3 are flat: a handful (stage_1_and_2.py, stage3.py).
    """
    saved = 1 if plan.activation_checkpointing else _SAVED_TENSORS_PER_BLOCK
    weights = _WEIGHTS_PER_BLOCK if plan.stage == 0 else 0
    return model.num_layers * (saved + weights)


def error_bytes(parts: MemoryParts) -> int:
    """What states and activations may be off, in either direction, as independent errors; overhead has its own band."""
    flexible = parts.activations + parts.logits
    fixed = parts.total - flexible - parts.overhead
    return int(math.hypot(STATES_ERROR * fixed, ACTIVATIONS_ERROR * flexible))


def verdict(memory: GpuMemory, capacity_bytes: int, headroom: float) -> Verdict:
    """Comfortable up to ``1 - headroom`` of the card, tight up to the card less the predicted error."""
    if memory.peak_allocated_bytes <= capacity_bytes * (1 - headroom):
        return "comfortable"
    return "tight" if memory.high_bytes <= capacity_bytes else "does-not-fit"
