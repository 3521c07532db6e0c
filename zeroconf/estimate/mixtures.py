"""Mixtures of experts: bytes that autograd keeps of one block's experts, for one token, and what is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.estimate.families import Family, family_of

if TYPE_CHECKING:
    from zeroconf.types import ModelSpec

# the sorted order, twice, the experts' ids, and their weights (integrations/moe.py: grouped_mm_experts_forward)
_INDEX_BYTES: Final = 40


def experts_computed(model: ModelSpec) -> int:
    """Experts that compute one token: those it is routed to, or all (modeling_llama4.py: Llama4TextMoe repeats it)."""
    return model.num_experts if family_of(model).all_experts else model.num_experts_per_token


def idle_parameters(model: ModelSpec) -> int:
    """Elements that compute each token though it is not routed to them.

    Llama-4-Scout: 48 blocks x 15 idle experts x 3 x 5120 x 8192 = 90.6e9 beside 17.2e9 active ones.
    """
    sparse = model.num_layers - model.num_dense_layers
    idle = experts_computed(model) - model.num_experts_per_token
    expert = (3 if model.gated_mlp else 2) * model.hidden_size * model.intermediate_size
    return min(model.num_parameters - model.num_active_parameters, sparse * idle * expert)


def expert_elements(model: ModelSpec) -> int:
    """Elements of one block's experts. Mixtral-8x7B: 8 x 3 x 14336 x 4096 = 1.41e9."""
    return model.num_experts * (3 if model.gated_mlp else 2) * model.hidden_size * model.intermediate_size


def kept_expert_elements(model: ModelSpec) -> int:
    """Elements of the experts that autograd keeps gathered to backward: views of the weights, not the weights.

    integrations/moe.py, _grouped_linear: transposed unless the class stores them so (gpt-oss); Llama4TextExperts does.
    """
    sparse = model.num_layers - model.num_dense_layers
    return sparse * expert_elements(model) if family_of(model).transposes_experts else 0


def experts_bytes(model: ModelSpec, element_bytes: int, one: int, shared: int) -> int:
    """The experts of one block: ``one`` and ``shared`` are what MLPs of an expert's width and the shared one's keep.

    Each expert: its gathered input, its output and indices beside (grouped_mm_experts_forward); where all run, the
    repeated input and its product with the scores (Llama4TextMoe). The router keeps its softmax in fp32, DeepSeek's an
    fp32 copy of its input too; the gate of Qwen2-MoE's shared experts their output.
    """
    family = family_of(model)
    size = model.hidden_size
    router = 4 * model.num_experts
    if family.routing == "fp32" and element_bytes < 4:
        router += 4 * size
    if family.gated_shared_experts:
        shared += size * element_bytes
    return experts_computed(model) * (one + 2 * size * element_bytes + _INDEX_BYTES) + router + shared


def experts_forward_bytes(model: ModelSpec, element_bytes: int) -> tuple[int, int]:
    """What one block's experts need at most in forward when nothing is kept, and beside what is kept when they end.

    An expert's input, gate and up projection, activation (gpt-oss' formula: four tensors) and product; or its input,
    its output, and this weighted, in the experts' order and the tokens'. Where all experts run, their outputs wait to
    be summed.
    """
    family, size, inner = family_of(model), model.hidden_size, model.intermediate_size
    inside = (size + (7 if family.activation == "composed" else 4) * inner) * element_bytes
    shared = 4 * model.shared_intermediate_size * element_bytes
    if family.all_experts:
        return max(model.num_experts * inside, shared), model.num_experts * size * element_bytes
    weighted = 2 * size * _weighted_bytes(family, element_bytes)
    run = experts_computed(model)
    return max(run * max(inside, 2 * size * element_bytes + weighted), shared), run * weighted


def experts_backward_bytes(model: ModelSpec, element_bytes: int) -> int:
    """What the backward of one block's experts needs beside their saved tensors.

    Gradients of the product and of both factors, when the product is gone, or of the three copies of an expert's
    output (weighted, in the tokens' order, as the experts'); the shared experts' at another time.
    """
    size, inner = model.hidden_size, 2 * model.intermediate_size * element_bytes
    routed = experts_computed(model) * max(inner, 3 * size * _weighted_bytes(family_of(model), element_bytes))
    return max(routed, 2 * model.shared_intermediate_size * element_bytes) + size * element_bytes


def _weighted_bytes(family: Family, element_bytes: int) -> int:
    """Bytes of one element of an expert's output when it is weighted: fp32 where the weights are."""
    return element_bytes if family.routing == "half" else 4
