"""Trainable parameters of LoRA adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.errors import InputError

if TYPE_CHECKING:
    from zeroconf.types import ModelSpec

# families whose modules hold query, key and value in one matrix
_FUSED_QUERY_KEY_VALUE = {
    *("phi3", "gpt2", "gpt_bigcode", "gpt_neox", "codegen", "falcon", "bloom", "mpt"),
    *("chatglm", "internlm2", "baichuan", "modernbert"),
}
# families whose experts peft leaves alone, as it knows no names for the matrices in their tensors
_UNADAPTED_EXPERTS = {"gpt_oss", "llama4_text", "phimoe", "granitemoe"}
_FUSED_GATE_UP = {"phi3", "glm", "glm4", "chatglm", "modernbert"}


def _mlp_sizes(model: ModelSpec) -> int:
    """Inputs and outputs of one block's MLP matrices, summed."""
    hidden, intermediate = model.hidden_size, model.intermediate_size
    if model.architecture in _UNADAPTED_EXPERTS:
        return 3 * (hidden + intermediate) if model.architecture == "llama4_text" else 0
    if model.num_experts:
        # peft doubles the rank where gate and up stand in one tensor, and adapts the router
        expert = 2 * (hidden + 2 * intermediate) + (intermediate + hidden)
        return (hidden + model.num_experts) + model.num_experts * expert
    if not model.gated_mlp:
        return 2 * (hidden + intermediate)
    if model.architecture in _FUSED_GATE_UP:
        return (hidden + 2 * intermediate) + (intermediate + hidden)
    return 3 * (hidden + intermediate)


def _attention_sizes(model: ModelSpec) -> int:
    """Inputs and outputs of one attention's matrices, summed."""
    hidden, query, key_value = model.hidden_size, model.query_size, model.key_value_size
    if model.architecture in _FUSED_QUERY_KEY_VALUE:
        return (hidden + query + 2 * key_value) + (query + hidden)
    return (hidden + query) + 2 * (hidden + key_value) + (query + hidden)


def with_lora(model: ModelSpec, rank: int) -> int:
    """Trainable parameters with adapters on every linear layer of the blocks.

    As peft 0.21's ``target_modules="all-linear"``: ``rank * (inputs + outputs)`` for each matrix, experts
    and routers included where peft knows the family's. Shared experts (Qwen2-MoE, DeepSeek), dense layers among sparse
    ones and latent attention (DeepSeek) are approximated by the plain shape, BERT's pooler is left out.

    Raises:
        InputError: a rank that is not between 1 and the hidden size.
    """
    if not 1 <= rank <= model.hidden_size:
        msg = f"LoRA rank {rank} is out of range; give 1 to {model.hidden_size}, the model's width"
        raise InputError(msg)
    attentions = model.num_layers
    if model.kind == "encoder-decoder":
        attentions += model.num_layers // 2
    return rank * (attentions * _attention_sizes(model) + model.num_layers * _mlp_sizes(model))
