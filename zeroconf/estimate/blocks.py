"""Bytes that autograd keeps of the parts of one block, for one token.

What an operator keeps is what its derivative reads (torch: tools/autograd/derivatives.yaml): a product its factors, a
linear layer its input, softmax its output. Tensors that two operators read are counted once. ``element_bytes`` are
those of the model's dtype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from zeroconf.estimate.families import Family, family_of
from zeroconf.estimate.mixtures import experts_backward_bytes, experts_bytes, experts_forward_bytes
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from zeroconf.types import LatentAttention, ModelSpec, Workload

Kernel = Literal["flash", "efficient", "math", "eager"]
# queries, keys and values of the math kernel, whatever the model's dtype
MATH_BYTES: Final = 4


def norm_bytes(family: Family, size: int, element_bytes: int, *, output: bool = True) -> int:
    """One normalisation of ``size`` elements, with its output where a linear layer reads it.

    LlamaRMSNorm: the input in fp32 (``to(torch.float32)``, for ``pow`` and the product with ``rsqrt``), that product
    cast back (for the weight's gradient), one fp32 number. GemmaRMSNorm does not cast back. T5LayerNorm multiplies
    the input itself, not its copy. LayerNorm: its input. bf16, 4096 elements: 32,772 bytes.
    """
    kept = output * size * element_bytes
    if family.norm == "layer":
        return kept + size * element_bytes + 2 * element_bytes
    normalised = 4 if family.norm == "rms-fp32" else element_bytes
    kept += (4 + normalised) * size + 4
    return kept + size * element_bytes if family.norm == "t5" and element_bytes < 4 else kept


def norms_bytes(model: ModelSpec, element_bytes: int) -> int:
    """The normalisations of one block: before attention and MLP, after them where the family has such."""
    family = family_of(model)
    size = model.hidden_size
    kept = 2 * norm_bytes(family, size, element_bytes)
    if family.parallel:
        kept -= size * element_bytes
    if family.post_norms:
        kept += 2 * norm_bytes(family, size, element_bytes, output=False)
    if family.query_key_norm:
        heads = model.num_attention_heads + model.num_key_value_heads
        kept += heads * norm_bytes(family, model.head_dim, element_bytes, output=False)
    return kept


def frozen_norms_bytes(model: ModelSpec, element_bytes: int) -> int:
    """What the normalisations of one block keep for the gradients of their weights alone; LayerNorm nothing."""
    family = family_of(model)
    if family.norm == "layer":
        return 0
    normalised = (4 if family.post_norms else 2) * model.hidden_size
    if family.query_key_norm:
        normalised += model.query_size + model.key_value_size
    return normalised * (4 if family.norm == "rms-fp32" else element_bytes)


def kernel_of(model: ModelSpec, workload: Workload, element_bytes: int) -> Kernel:
    """What computes the attention on a GPU.

    PyTorch's choice for sdpa (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp): flash takes half precision
    without a mask, memory-efficient attention fp32, masks and values of another width, without grouped heads; else the
    math kernel computes all scores.
    """
    family = family_of(model)
    if workload.attention == "flash" and not family.bias and element_bytes < 4:
        return "flash"
    if workload.attention == "eager" or not family.sdpa:
        return "eager"
    narrow = model.latent is not None and model.latent.value_size != model.head_dim
    if element_bytes < 4 and not (family.bias or family.masked or narrow):
        return "flash"
    # Falcon repeats its grouped keys itself, but for a single one
    repeated = family.masked and model.num_key_value_heads > 1
    return "efficient" if repeated or model.num_key_value_heads == model.num_attention_heads else "math"


def attention_bytes(model: ModelSpec, workload: Workload, element_bytes: int) -> int:
    """One attention: queries, keys, values and output; with all scores, keys and values for each query head.

    The math kernel computes half precision in fp32 (transformers/attention.cpp: _scaled_dot_product_attention_math):
    queries, keys, values and one softmax (_safe_softmax keeps its result). Falcon-7B, bf16, 2048 tokens: 645,248 bytes.
    Values that are a view of the packed projection keep all of it. Flash attention's output has the queries' layout,
    which a concatenation made another than the output projection reads: one more copy, as where ranks that share a
    sequence exchange it. Llama-3-8B, bf16: 20,608 bytes with flash attention.
    """
    family = family_of(model)
    kernel = kernel_of(model, workload, element_bytes)
    query, key_value = model.query_size, model.key_value_size
    scores = scores_per_token(model, workload, kernel)
    if kernel == "math":
        dropped = 1 + MATH_BYTES if family.score_dropout else 0
        return (MATH_BYTES + dropped) * scores + (3 * MATH_BYTES + element_bytes) * query
    if kernel == "eager":
        kept = scores * _score_bytes(family, element_bytes)
        if model.latent is not None:
            return kept + _latent_bytes(model, model.latent, element_bytes, padded=False)
        return kept + 4 * query * element_bytes
    rotated = query + key_value if family.rotary else 0
    projected = key_value if family.rotary and not family.packed else query + 2 * key_value
    masks = 0
    if family.masked and kernel == "efficient":
        # bool masks become numbers in each block, and Falcon repeats grouped keys and values for each query head
        masks = element_bytes * workload.sequence_length
        if key_value < query:
            rotated, projected = 2 * query, query
    copied = (family.partial_rotary and kernel == "flash") or workload.sequence_parallel_size > 1
    output = 2 * query if copied else query
    length = workload.sequence_length
    rows = 1.0 if kernel == "flash" else 32 * ceil_div(length, 32) / length
    sums = int(4 * rows * model.num_attention_heads)
    if model.latent is not None:
        return sums + _latent_bytes(model, model.latent, element_bytes, padded=kernel == "flash")
    return element_bytes * (rotated + projected + output) + sums + masks


def _latent_bytes(model: ModelSpec, latent: LatentAttention, element_bytes: int, *, padded: bool) -> int:
    """Multi-head latent attention: compressed queries and keys normalised, queries, keys, values and output.

    Values are a view of what is expanded with the keys. Flash attention pads them to the queries' width, and cuts its
    output (models/deepseek_v3/modeling_deepseek_v3.py; integrations/flash_attention.py).
    """
    family, query = family_of(model), model.query_size
    ranks = [rank for rank in (latent.query_rank, latent.key_value_rank) if rank]
    norms = sum(norm_bytes(family, rank, element_bytes) for rank in ranks)
    output = model.num_attention_heads * latent.value_size
    expanded = query - model.num_attention_heads * latent.rotary_size + output
    values = 2 * query if padded and latent.value_size != model.head_dim else expanded
    return norms + element_bytes * (2 * query + values + output)


def scores_per_token(model: ModelSpec, workload: Workload, kernel: Kernel) -> int:
    """Attention scores that one token has: heads x sequence where they are all computed, else none."""
    return model.num_attention_heads * workload.sequence_length if kernel in ("math", "eager") else 0


def _score_bytes(family: Family, element_bytes: int) -> int:
    """Kept for one score: the softmax, its cast to the model's dtype or its dropped copy and mask, the capped score."""
    softmax = 4 if family.softmax_fp32 else element_bytes
    cast = element_bytes if family.softmax_fp32 and element_bytes < 4 else 0
    multiplied = 1 + element_bytes if family.score_dropout else cast
    return softmax + multiplied + (element_bytes if family.soft_capping else 0)


def scores_forward_bytes(model: ModelSpec, kernel: Kernel, element_bytes: int, *, checkpointing: bool) -> int:
    """What attention's forward needs at most for one score.

    The masked scores, their fp32 copy and its softmax, or both and a mask of dropout; the math kernel the masked scores
    and what they were or become. Falcon and BLOOM hold the scores beside the masked ones by name, and the models' loops
    the weights that the block before returned, which else autograd keeps.
    """
    family = family_of(model)
    if kernel == "math":
        return 2 * MATH_BYTES
    if family.softmax_fp32 or family.bias:
        most = 8 if element_bytes == 4 else 8 + element_bytes
    else:
        most = 2 * element_bytes + family.score_dropout
    held = family.named_scores + (family.returns_scores and checkpointing)
    return most + held * element_bytes


def scores_backward_bytes(model: ModelSpec, kernel: Kernel, element_bytes: int) -> int:
    """What attention's backward needs for one score: the gradients of the softmax and of its input."""
    if kernel == "math":
        return 2 * MATH_BYTES
    return 4 + element_bytes if family_of(model).softmax_fp32 else 2 * element_bytes


def mlp_bytes(model: ModelSpec, element_bytes: int) -> int:
    """The MLP of the block that keeps most: experts, or a mixture's dense one. Llama-3-8B, bf16: 114,688 bytes."""
    if model.num_experts == 0:
        return _one_mlp(model, model.intermediate_size, element_bytes)
    dense = _one_mlp(model, model.dense_intermediate_size, element_bytes)
    return max(_experts(model, element_bytes), dense)


def narrower_bytes(model: ModelSpec, element_bytes: int) -> int:
    """What the MLPs of all blocks together keep less than if each were the one that keeps most."""
    if model.num_dense_layers == 0:
        return 0
    experts, dense = _experts(model, element_bytes), _one_mlp(model, model.dense_intermediate_size, element_bytes)
    if dense > experts:
        return (model.num_layers - model.num_dense_layers) * (dense - experts)
    return model.num_dense_layers * (experts - dense)


def _experts(model: ModelSpec, element_bytes: int) -> int:
    one = _one_mlp(model, model.intermediate_size, element_bytes)
    return experts_bytes(model, element_bytes, one, _one_mlp(model, model.shared_intermediate_size, element_bytes))


def _one_mlp(model: ModelSpec, width: int, element_bytes: int) -> int:
    """One MLP. Gated: gate, activation, up, their product. Ungated: input and output of the activation.

    NewGELUActivation keeps four tensors where one operator keeps its input, as BLOOM's own function does.
    """
    family = family_of(model)
    before = {"fused": 1, "relu": 0, "composed": 4, "recomputed": 1}[family.activation]
    kept = (before + (3 if model.gated_mlp else 1)) * width * element_bytes
    if family.bias and family.dropout:
        # T5's MLP drops out inside: a mask, and relu's output beside the dropped one
        kept += width * (1 + (element_bytes if family.activation == "relu" else 0))
    return kept


def mlp_forward_bytes(model: ModelSpec, element_bytes: int) -> int:
    """What an MLP's forward needs at most when nothing is kept: of a gate's factors, one lives beside their product."""
    family, size = family_of(model), 2 * model.hidden_size * element_bytes
    width = model.dense_intermediate_size if model.num_experts else model.intermediate_size
    spare = width * element_bytes if model.gated_mlp and not family.packed and family.activation == "fused" else 0
    dense = _one_mlp(model, width, element_bytes) - spare
    return max(dense, experts_forward_bytes(model, element_bytes)[0] if model.num_experts else 0) + size


def mlp_end_bytes(model: ModelSpec, element_bytes: int) -> int:
    """What an MLP's forward needs beside what is kept when it ends."""
    return experts_forward_bytes(model, element_bytes)[1] if model.num_experts else 0


def mlp_backward_bytes(model: ModelSpec, element_bytes: int) -> int:
    """What an MLP's backward needs beside its saved tensors: gradients of these, less what it frees meanwhile.

    Gated: gradients of the product and of both factors, when the product is gone; ungated the gradient of the
    activation's output and input, when the output is gone unless it is relu's; BLOOM's the steps of its formula
    (modeling_bloom.py: bloom_gelu_back). Llama-3-8B, bf16: 65,536 bytes.
    """
    family = family_of(model)
    size = model.hidden_size * element_bytes
    inner = model.intermediate_size * element_bytes
    if model.num_experts:
        return max(
            experts_backward_bytes(model, element_bytes), 2 * model.dense_intermediate_size * element_bytes + size
        )
    if family.activation == "recomputed":
        return 5 * inner + size
    if model.gated_mlp or family.activation != "fused":
        return 2 * inner + size
    return inner + 2 * size
