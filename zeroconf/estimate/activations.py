"""Bytes that autograd keeps for the backward pass, and needs in it, per GPU and micro batch.

Counted tensor by tensor over the forward code of Transformers' blocks (blocks.py, families.py), in the model's own
dtype, and compared with that code on fake tensors (benchmarks/activations.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.estimate.blocks import (
    attention_bytes,
    frozen_norms_bytes,
    kernel_of,
    mlp_backward_bytes,
    mlp_bytes,
    mlp_end_bytes,
    mlp_forward_bytes,
    narrower_bytes,
    norm_bytes,
    norms_bytes,
    scores_backward_bytes,
    scores_forward_bytes,
    scores_per_token,
)
from zeroconf.estimate.families import family_of

if TYPE_CHECKING:
    from zeroconf.types import ModelSpec, Workload

ADAPTER_BYTES: Final = 4
PARTITIONED_WEIGHTS: Final = 3


def dtype_bytes(workload: Workload) -> int:
    """Bytes of one element of the model: 4 for fp32, else 2."""
    return 4 if workload.precision == "fp32" else 2


def layer_bytes(model: ModelSpec, workload: Workload, micro_batch_size: int) -> int:
    """One block's saved tensors for one micro batch, the mean of encoder and decoder blocks where a model has both.

    Of a mixture's blocks, with experts or without, the one that keeps most.
    A decoder block beside an encoder has a second attention, over the encoder's output, with its own normalisation.
    Llama-3-8B, 4096 tokens, bf16, flash attention: 823e6 bytes.
    """
    element_bytes = dtype_bytes(workload)
    family = family_of(model)
    attention = attention_bytes(model, workload, element_bytes)
    masks = 2 * model.hidden_size if family.dropout else 0
    per_token = norms_bytes(model, element_bytes) + attention + mlp_bytes(model, element_bytes) + masks
    if model.kind == "encoder-decoder":
        per_token += _cross_bytes(model, workload) // 2
    tokens = workload.local_sequence_length * micro_batch_size
    return per_token * tokens + _bias_bytes(model, workload)


def adapter_bytes(model: ModelSpec, workload: Workload, micro_batch_size: int, stage: int) -> int:
    """What adapters change in one block's saved tensors for one micro batch.

    peft, tuners/tuners_utils.py, _cast_input_dtype: each adapter casts its input to the type of its weights, which at
    stage 3 stays fp32 (the engine casts no model that zero.Init partitioned; a quantized one is partitioned later);
    experts have none of their own. Normalisations keep nothing for the gradients of their frozen weights. Llama-3-70B,
    2048 tokens, stage 3: 4 x (5 x 8192 + 8192 + 28672) x 2048 = 637.5e6 bytes less 2 x 2 x 8192 x 2048 = 67.1e6.
    """
    if workload.lora_rank is None:
        return 0
    family, element_bytes = family_of(model), dtype_bytes(workload)
    saved = -frozen_norms_bytes(model, element_bytes)
    if stage == PARTITIONED_WEIGHTS and element_bytes < ADAPTER_BYTES and workload.quantize is None:
        gates = 2 if model.gated_mlp else 1
        mlp = model.hidden_size if model.num_experts else gates * model.hidden_size + model.intermediate_size
        saved += ADAPTER_BYTES * ((1 if family.packed else 3) * model.hidden_size + model.query_size + mlp)
    return saved * workload.local_sequence_length * micro_batch_size


def _cross_bytes(model: ModelSpec, workload: Workload) -> int:
    """A decoder block's attention over the encoder's output, for one token."""
    element_bytes = dtype_bytes(workload)
    norm = norm_bytes(family_of(model), model.hidden_size, element_bytes)
    return norm + attention_bytes(model, workload, element_bytes) + model.hidden_size


def _bias_bytes(model: ModelSpec, workload: Workload) -> int:
    """Position biases as a mask, one for each decoder attention (sdpa_attention.py: create_position_bias_mask)."""
    element_bytes = dtype_bytes(workload)
    if not family_of(model).bias or kernel_of(model, workload, element_bytes) != "efficient":
        return 0
    return model.num_attention_heads * workload.sequence_length**2 * element_bytes


def saved_bytes(model: ModelSpec, workload: Workload, micro_batch_size: int, *, checkpointing: bool) -> int:
    """All saved tensors at the end of forward but the loss's; with checkpointing only each block's input.

    Llama-3-8B, 4096 tokens, bf16, flash attention: 26.5e9 bytes without, 1.21e9 with checkpointing.
    """
    tokens = workload.local_sequence_length * micro_batch_size
    # position biases are shared by the blocks; checkpoints keep those of all three kinds of attention
    ends = _ends_bytes(model, dtype_bytes(workload)) * tokens + (3 if checkpointing else 1) * _bias_bytes(
        model, workload
    )
    if checkpointing:
        return ends + model.num_layers * model.hidden_size * dtype_bytes(workload) * tokens
    narrower = narrower_bytes(model, dtype_bytes(workload)) * tokens
    return ends + model.num_layers * layer_bytes(model, workload, micro_batch_size) - narrower


def ends_bytes(model: ModelSpec, workload: Workload, micro_batch_size: int) -> int:
    """What is saved outside the blocks for one micro batch."""
    return _ends_bytes(model, dtype_bytes(workload)) * workload.local_sequence_length * micro_batch_size


def _ends_bytes(model: ModelSpec, element_bytes: int) -> int:
    """Outside the blocks, for one token: the last normalisation, dropout of the embeddings, ids and labels.

    Encoders: normalised embeddings, and the language model's head (BertPredictionHeadTransform: linear layer,
    activation, normalisation). An encoder-decoder has both ends twice.
    """
    family = family_of(model)
    size = model.hidden_size
    mask = size if family.dropout else 0
    last = norm_bytes(family, size, element_bytes) + mask
    if model.kind == "encoder":
        return 5 * size * element_bytes + mask + 16
    if model.kind == "encoder-decoder":
        return 2 * (last + mask) + 16
    return last + 16


def forward_working_bytes(model: ModelSpec, workload: Workload, micro_batch_size: int, *, checkpointing: bool) -> int:
    """What the last block's forward needs at most, beside what is saved at its end (below 0: less than that).

    Computing all scores, before the MLP keeps anything. With checkpointing a block keeps nothing in the end, and
    needs in its MLP what it else would keep. Llama-2-7B with eager attention, 2048 tokens, bf16: 659,456 bytes a
    token with checkpointing.
    """
    element_bytes = dtype_bytes(workload)
    tokens = workload.local_sequence_length * micro_batch_size
    kernel = kernel_of(model, workload, element_bytes)
    per_score = scores_forward_bytes(model, kernel, element_bytes, checkpointing=checkpointing)
    attention = per_score * scores_per_token(model, workload, kernel) + 4 * model.query_size * element_bytes
    ends = _ends_bytes(model, element_bytes)
    if checkpointing:
        return (max(attention, mlp_forward_bytes(model, element_bytes)) - ends) * tokens
    in_attention = attention * tokens - layer_bytes(model, workload, micro_batch_size)
    return max(in_attention, mlp_end_bytes(model, element_bytes) * tokens) - ends * tokens


def backward_working_bytes(model: ModelSpec, workload: Workload, micro_batch_size: int, *, checkpointing: bool) -> int:
    """What backward needs at most in the last block, beside what is saved at the end of forward, the loss's apart.

    With checkpointing the block is computed again first; its input may be what its normalisation keeps. Then the MLP's
    gradients, or those of the scores when the MLP's tensors are gone; without checkpointing also the fp32 gradients of
    the last normalisation. Llama-2-7B, bf16, flash attention: 65,536 bytes a token without.
    """
    element_bytes = dtype_bytes(workload)
    family = family_of(model)
    size = model.hidden_size
    tokens = workload.local_sequence_length * micro_batch_size
    kernel = kernel_of(model, workload, element_bytes)
    scores = scores_per_token(model, workload, kernel)
    freed = mlp_bytes(model, element_bytes) + norm_bytes(family, size, element_bytes)
    in_attention = scores_backward_bytes(model, kernel, element_bytes) * scores - freed
    in_block = max(mlp_backward_bytes(model, element_bytes), in_attention) - _ends_bytes(model, element_bytes)
    if not checkpointing:
        last_norm = 0 if family.norm == "layer" or element_bytes == 4 else 16 * size
        return max(in_block, last_norm) * tokens
    shared = size * element_bytes if family.norm in ("layer", "t5") or element_bytes == 4 else 0
    if model.kind == "encoder-decoder":
        # the last block is a decoder's; its position biases have gradients for each sequence
        per_bias = element_bytes * model.num_attention_heads * workload.sequence_length
        in_block += _cross_bytes(model, workload) // 2 + (per_bias if not scores else 0)
    return layer_bytes(model, workload, micro_batch_size) + (in_block - shared) * tokens
