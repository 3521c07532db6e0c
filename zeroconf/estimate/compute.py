"""Seconds that one micro step keeps the GPU and the host busy.

The GPU's time is matrix products at a share of the peak plus what other kernels move through memory (a roofline: narrow
models, long vocabularies and eager attention are bound by memory). The host's is Python, PyTorch and DeepSpeed's hooks;
the slower of the two decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.estimate.mixtures import idle_parameters
from zeroconf.estimate.packed import packed_weights
from zeroconf.estimate.shares import tensor_share
from zeroconf.estimate.tensors import block_matrices

if TYPE_CHECKING:
    from zeroconf.estimate.sizes import Sizes
    from zeroconf.rates import Rates
    from zeroconf.types import Gpu, ModelSpec, Plan, Workload

# backward over forward of attention's scores: flash attention computes them again
_FLASH_BACKWARD: Final = 2.5
_EAGER_BACKWARD: Final = 2.0
_NORMS_PER_BLOCK: Final = 2
_WITH_BIASES: Final = 12


def multiplied_parameters(model: ModelSpec) -> tuple[int, int]:
    """Parameters that every token is multiplied with: the blocks' active ones, and the output layer's.

    An input table of its own is only looked up. Llama-3-8B: 6.98e9 and 0.53e9.
    """
    tables = model.embedding_parameters * (1 if model.tied_embeddings else 2)
    active = model.num_active_parameters
    return max(0, active - tables), min(active, model.embedding_parameters)


def _score_flops(model: ModelSpec, workload: Workload, tokens: int) -> float:
    """Forward FLOPs of scores and values: 4 L h s per token (PaLM, arXiv 2204.02311, appendix B: 12 with backward)."""
    return 4.0 * model.num_layers * model.query_size * workload.sequence_length * tokens


def forward_flops(model: ModelSpec, workload: Workload, micro_batch_size: int) -> float:
    """FLOPs of one forward pass of one micro batch: 2 per multiplied parameter and token, and the attention scores.

    Llama-3-8B, 4096 tokens: 2 * 7.50e9 * 4096 + 4 * 32 * 4096 * 4096 * 4096 = 7.03e13.
    """
    tokens = workload.local_sequence_length * micro_batch_size
    return 2.0 * sum(multiplied_parameters(model)) * tokens + _score_flops(model, workload, tokens)


def backward_factor(sizes: Sizes) -> float:
    """Backward over forward: 1 for the gradient of activations, 1 for that of weights, which frozen ones lack."""
    return 1 + sizes.trainable / sizes.unpacked


def peak_flops(gpu: Gpu, workload: Workload) -> float:
    """The peak of the workload's precision."""
    return gpu.single_flops_per_second if workload.precision == "fp32" else gpu.half_flops_per_second


def _adapted_elements(model: ModelSpec, workload: Workload) -> float:
    """Inputs and outputs of all adapted matrices that one token meets: an adapter has the rank times as many weights.

    Llama-3-8B with all linear layers adapted: 32 x 81,920 = 2.62e6.
    """
    if workload.lora_rank is None:
        return 0.0
    met = model.num_active_parameters / model.num_parameters
    return met * (workload.trainable_parameters or 0) / workload.lora_rank


def product_seconds_at_peak(model: ModelSpec, gpu: Gpu, workload: Workload, plan: Plan) -> float:
    """What a step's matrix products take at the least, attention and recomputation apart.

    Llama-3-8B, 4096 tokens on an A100: 3 x 6.15e13 FLOPs at 312e12 a second are 0.59 s.
    """
    on_rank = tensor_share(model, workload.tensor_parallel_size)
    trained = 1.0 if workload.trainable_parameters is None else 0.0
    tokens = workload.local_sequence_length * plan.micro_batch_size * plan.gradient_accumulation_steps
    return 2.0 * sum(multiplied_parameters(on_rank)) * tokens * (2 + trained) / peak_flops(gpu, workload)


def _product_seconds(model: ModelSpec, gpu: Gpu, workload: Workload, plan: Plan, sizes: Sizes, rates: Rates) -> float:
    """Matrix products and attention. Checkpointing computes the blocks again, not the output layer."""
    tokens = workload.local_sequence_length * plan.micro_batch_size
    again = 1 if plan.activation_checkpointing else 0
    passes = 1 + backward_factor(sizes)
    blocks, head = multiplied_parameters(model)
    blocks += idle_parameters(model)
    adapters = (workload.lora_rank or 0) * _adapted_elements(model, workload) * (3 + again)
    products = 2.0 * tokens * (blocks * (passes + again) + head * passes + adapters + sizes.reference)
    backward = _EAGER_BACKWARD if workload.attention == "eager" else _FLASH_BACKWARD
    scores = _score_flops(model, workload, tokens) * (1 + backward + again)
    share = rates.single_efficiency if workload.precision == "fp32" else gpu.max_efficiency
    return (products + scores / rates.attention_share) / (peak_flops(gpu, workload) * share)


def _memory_seconds(model: ModelSpec, gpu: Gpu, workload: Workload, plan: Plan, sizes: Sizes, rates: Rates) -> float:
    """Everything between the products, at the memory's rate. Elements of fp32 are twice as long.

    Gradients of activations pass through all of it whether or not the weights train.
    """
    tokens = workload.local_sequence_length * plan.micro_batch_size
    again = 1 if plan.activation_checkpointing else 0
    passes, repeated = 1 + backward_factor(sizes), (3 + again) / 3
    moved = tokens * model.num_layers * model.hidden_size * rates.block_bytes * repeated
    if workload.attention == "eager":
        scores = tokens * model.num_layers * model.num_attention_heads * workload.sequence_length
        moved += scores * rates.score_bytes * repeated
    fused = workload.cross_entropy != "torch"
    moved += tokens * model.vocab_size * (rates.fused_logit_bytes if fused else rates.logit_bytes)
    weights = sum(multiplied_parameters(model)) + idle_parameters(model)
    moved += rates.weight_bytes * weights * passes / 3
    moved += tokens * _adapted_elements(model, workload) * rates.adapter_bytes * repeated
    if workload.quantize is not None:
        moved += rates.unpacked_bytes * packed_weights(model) * (2 + again)
    if plan.fp32_gradients:
        moved += rates.fp32_gradient_bytes * sizes.trainable
    return moved * (sizes.element_bytes / 2) / gpu.memory_bandwidth_bytes_per_second


def gpu_seconds(model: ModelSpec, gpu: Gpu, workload: Workload, plan: Plan, sizes: Sizes, rates: Rates) -> float:
    """One micro step of the GPU.

    Llama-3-8B, 4096 tokens on an A100 without checkpointing: 2.23e14 FLOPs of products and scores in 0.91 s, and
    0.37e12 bytes in 0.18 s.
    """
    given = (model, gpu, workload, plan, sizes, rates)
    return rates.compute_factor * (_product_seconds(*given) + _memory_seconds(*given))


def parameters_in_blocks(model: ModelSpec) -> int:
    """Parameters that hooks run over: matrices and norms of all blocks. Llama-3-8B: 32 x 9; with biases 12."""
    each = len(block_matrices(model)) + _NORMS_PER_BLOCK if model.gated_mlp else _WITH_BIASES
    return model.num_layers * each


def trained_in_blocks(model: ModelSpec, workload: Workload) -> int:
    """Parameters of all blocks that train: all, or two of each adapter."""
    return 2 * _adapters_in_blocks(model, workload) or parameters_in_blocks(model)


def _adapters_in_blocks(model: ModelSpec, workload: Workload) -> int:
    """Adapters of all blocks: one beside each matrix. Llama-3-8B: 32 x 7."""
    return 0 if workload.lora_rank is None else model.num_layers * len(block_matrices(model))


def hook_seconds(model: ModelSpec, workload: Workload, plan: Plan, rates: Rates) -> float:
    """What one optimizer step waits for DeepSpeed's hooks whatever the GPU has to do: its own, and stage 2's.

    They run over what trains: an adapter's two matrices.
    """
    each = rates.step_hook_seconds
    if plan.stage == 2:
        each += plan.gradient_accumulation_steps * rates.stage_2_hook_seconds
    return trained_in_blocks(model, workload) * each


def host_seconds(model: ModelSpec, workload: Workload, plan: Plan, rates: Rates) -> float:
    """One micro step of the host: Python and launches per block and adapter, and stage 3's fetches per parameter.

    Qwen-1.8B at stage 3 with checkpointing: 24 x 4 x 0.57 ms + 216 x 0.75 ms = 0.22 s; published 0.26 s.
    """
    passes = 4 if plan.activation_checkpointing else 3
    seconds = model.num_layers * passes * rates.host_pass_seconds
    seconds += _adapters_in_blocks(model, workload) * passes * rates.adapter_pass_seconds
    return seconds + (parameters_in_blocks(model) * rates.stage_3_fetch_seconds if plan.stage == 3 else 0.0)
