"""Bytes that autograd keeps for the backward pass, per GPU and micro batch.

Counted tensor by tensor over the forward code of Transformers' blocks (modeling_llama.py: LlamaRMSNorm,
LlamaAttention, LlamaMLP; modeling_gpt2.py for the ungated kind), in the model's own dtype. What a tensor
costs is what autograd saves for it (torch/csrc/autograd/functions, "save_for_backward" of each op).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zeroconf.types import ModelSpec, Workload

# bytes per logit: model-dtype logits, fp32 copy, log-softmax and the two gradients alive together when
# backward starts (transformers/loss/loss_utils.py: ForCausalLMLoss upcasts; torch nll_loss + log_softmax)
_FORWARD_FP32_COPIES: Final = 2
_BACKWARD_FP32_COPIES: Final = 3
# eager attention's backward holds gradients of the scores in fp32 and in the model dtype, and masked and scaled
# copies, beside what is saved
_BACKWARD_SCORE_COPIES_BYTES: Final = 9


def dtype_bytes(workload: Workload) -> int:
    """Bytes of one element of the model: 4 for fp32, else 2."""
    return 4 if workload.precision == "fp32" else 2


def norm_bytes_per_token(model: ModelSpec, element_bytes: int) -> int:
    """One normalisation: the fp32 copy of its input, the normalised values, and its output.

    In fp32 the copy is the input itself; LayerNorm (ungated models) keeps its input and its output only.
    """
    if not model.gated_mlp:
        return 2 * element_bytes * model.hidden_size
    copy_bytes = 4 * model.hidden_size
    return copy_bytes + 2 * element_bytes * model.hidden_size


def attention_bytes_per_token(model: ModelSpec, workload: Workload, element_bytes: int) -> int:
    """Queries, keys, values and output; keys and values repeated for each query head unless flash.

    SDPA keeps its output and the transposed copy, eager attention the softmax in fp32 and in the model dtype.
    """
    if workload.attention == "flash":
        log_sum_exp = 4 * model.num_attention_heads
        return element_bytes * (2 * model.query_size + 2 * model.key_value_size) + log_sum_exp
    saved = element_bytes * 5 * model.query_size
    return saved + scores_per_token(model, workload) * (4 + element_bytes)


def scores_per_token(model: ModelSpec, workload: Workload) -> int:
    """Attention scores that one token materializes: heads x sequence with eager attention, else none."""
    return model.num_attention_heads * workload.sequence_length if workload.attention == "eager" else 0


def mlp_bytes_per_token(model: ModelSpec, element_bytes: int) -> int:
    """Gated: gate, its activation, up, their product. Ungated: the input and the output of the activation.

    A mixture of experts does this once for each expert that the token visits, on a gathered copy of its input.
    """
    tensors = 4 if model.gated_mlp else 2
    one_expert = tensors * model.intermediate_size * element_bytes
    if model.num_experts == 0:
        return one_expert
    gathered_input = 2 * model.hidden_size * element_bytes
    router = 4 * model.num_experts
    return model.num_experts_per_token * (one_expert + gathered_input) + router


def layer_bytes(model: ModelSpec, workload: Workload, micro_batch_size: int) -> int:
    """One block's saved tensors for one micro batch.

    Llama-3-8B, 4096 tokens, bf16, flash attention: 823e6 bytes.
    """
    element_bytes = dtype_bytes(workload)
    per_token = (
        2 * norm_bytes_per_token(model, element_bytes)
        + attention_bytes_per_token(model, workload, element_bytes)
        + mlp_bytes_per_token(model, element_bytes)
    )
    return per_token * workload.sequence_length * micro_batch_size


def saved_bytes(model: ModelSpec, workload: Workload, micro_batch_size: int, *, checkpointing: bool) -> int:
    """All blocks' saved tensors at the end of forward; with checkpointing only each block's input.

    Llama-3-8B, 4096 tokens, bf16, flash attention: 26.3e9 bytes without, 1.07e9 with checkpointing.
    """
    tokens = workload.sequence_length * micro_batch_size
    if checkpointing:
        return model.num_layers * model.hidden_size * dtype_bytes(workload) * tokens
    return model.num_layers * layer_bytes(model, workload, micro_batch_size)


def backward_temporary_bytes(model: ModelSpec, workload: Workload, micro_batch_size: int) -> int:
    """What one block's backward needs beside the saved tensors: the score gradients of eager attention.

    Llama-3-8B, 4096 tokens: 4.8e9 bytes.
    """
    scores = scores_per_token(model, workload) * workload.sequence_length * micro_batch_size
    return _BACKWARD_SCORE_COPIES_BYTES * scores


def logits_bytes(model: ModelSpec, workload: Workload, micro_batch_size: int, *, backward: bool) -> int:
    """Logits and the loss's copies of them at the end of forward, or when backward starts.

    Llama-3-8B, 4096 tokens, bf16: 7.36e9 bytes in backward (14 per logit). Encoders without a language
    model's head are counted with it: pretraining needs it.
    """
    copies = _BACKWARD_FP32_COPIES if backward else _FORWARD_FP32_COPIES
    per_logit = dtype_bytes(workload) + 4 * copies
    return per_logit * model.vocab_size * workload.sequence_length * micro_batch_size
