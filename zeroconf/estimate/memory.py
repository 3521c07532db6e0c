"""One GPU's peak memory: states, buffers and activations put together at each moment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeroconf.estimate import activations
from zeroconf.estimate.rules_of_thumb import model_state_bytes
from zeroconf.estimate.states import state_moments
from zeroconf.types import Cluster, GpuMemory, MemoryParts, ModelSpec, Moment, Plan, Verdict, Workload

if TYPE_CHECKING:
    from zeroconf.estimate.sizes import Sizes

# memory outside PyTorch's allocator: 551 MB (global VRAM less reserved) in Hugging Face's optimum-benchmark
# report cuda_pytorch_bert; NCCL's channels are assumed
CUDA_CONTEXT_BYTES: Final = 551_000_000
NCCL_BYTES: Final = 400_000_000
# reserved over allocated: about 1.01 at ZeRO-2 (Hugging Face and Qwen runs), 2 % to be safe
RESERVED_FACTOR: Final = 1.02
# relative error of the parts: states agree with counted allocations within 2 % (tests/estimate/test_states.py),
# whole steps of Llama-3-8B within 2 % (tests/estimate/test_memory.py); other families were not measured yet
STATES_ERROR: Final = 0.02
ACTIVATIONS_ERROR: Final = 0.10
OVERHEAD_ERROR: Final = 0.5


def gpu_memory(model: ModelSpec, cluster: Cluster, workload: Workload, plan: Plan, sizes: Sizes) -> GpuMemory:
    """The four moments with all parts, the reserved peak and the bounds, in bytes.

    Forward ends, and backward starts, with all activations alive; backward ends with all gradients and one
    block's activations. Gradients grow as activations shrink, so that no moment between needs more.
    """
    states = state_moments(sizes, plan)
    checkpointing = plan.activation_checkpointing
    micro = plan.micro_batch_size
    saved = activations.saved_bytes(model, workload, micro, checkpointing=checkpointing)
    one_layer = activations.layer_bytes(model, workload, micro)
    forward_working = activations.forward_working_bytes(model, workload, micro, checkpointing=checkpointing)
    working = activations.backward_working_bytes(model, workload, micro, checkpointing=checkpointing)
    overhead = CUDA_CONTEXT_BYTES + (NCCL_BYTES if cluster.num_gpus > 1 else 0)
    frozen_bytes = sizes.element_bytes * workload.frozen_parameters

    def moment(parts: MemoryParts, activation_bytes: int = 0, logits_bytes: int = 0) -> MemoryParts:
        return replace(
            parts,
            parameters=parts.parameters + frozen_bytes,
            activations=activation_bytes,
            logits=logits_bytes,
            overhead=overhead,
        )

    gathered = states.backward_start.gathered_parameters
    forward_logits = activations.logits_bytes(model, workload, micro, backward=False)
    forward_states = replace(states.steady, gathered_parameters=gathered, gradients=states.backward_start.gradients)
    backward_logits = activations.logits_bytes(model, workload, micro, backward=True)
    starts = moment(states.backward_start, saved, backward_logits)
    first_block = moment(states.backward_start, saved + working)
    ends = moment(states.backward_end, one_layer)
    moments: dict[Moment, MemoryParts] = {
        "init": moment(states.init),
        "forward": max(
            moment(forward_states, saved, forward_logits),
            moment(forward_states, saved + forward_working),
            key=lambda parts: parts.total,
        ),
        "backward": max(starts, first_block, ends, key=lambda parts: parts.total),
        "step": moment(states.step),
    }
    peak = max(moments.values(), key=lambda parts: parts.total)
    error = _error_bytes(peak)
    allocated = peak.total - peak.overhead
    return GpuMemory(
        moments=moments,
        peak_reserved_bytes=int(allocated * RESERVED_FACTOR) + peak.overhead,
        low_bytes=peak.total - error,
        high_bytes=int(allocated * RESERVED_FACTOR) + peak.overhead + error,
        textbook_bytes=int(model_state_bytes(model.num_parameters, cluster.num_gpus, plan.stage, workload.optimizer)),
    )


def _error_bytes(parts: MemoryParts) -> int:
    flexible = parts.activations + parts.logits
    fixed = parts.total - flexible - parts.overhead
    return int(STATES_ERROR * fixed + ACTIVATIONS_ERROR * flexible + OVERHEAD_ERROR * parts.overhead)


def verdict(memory: GpuMemory, capacity_bytes: int, headroom: float) -> Verdict:
    """Comfortable up to ``1 - headroom`` of the card, tight up to the card less the predicted error."""
    if memory.peak_allocated_bytes <= capacity_bytes * (1 - headroom):
        return "comfortable"
    return "tight" if memory.high_bytes <= capacity_bytes else "does-not-fit"
