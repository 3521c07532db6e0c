"""How Transformers' model classes differ in what they keep for the backward pass.

Read in transformers 5.24, models/<family>/modeling_<family>.py and the defaults of configuration_<family>.py; each
counted against the forward code itself (benchmarks/activations.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from zeroconf.choices import Attention
    from zeroconf.types import ModelSpec

Norm = Literal["rms", "rms-fp32", "t5", "layer"]
Activation = Literal["fused", "relu", "composed", "recomputed"]
Routing = Literal["half", "fp32-weights", "fp32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A model class, by what matters to memory.

    ``norm``: RMS in fp32 with the weight in the model's dtype (LlamaRMSNorm) or in fp32 (GemmaRMSNorm), T5LayerNorm,
    torch's LayerNorm. ``post_norms`` normalise what a block adds, beside those before. ``query_key_norm``: one per
    head. ``rotary`` makes new queries and keys, of ``partial_rotary`` heads by concatenation; ``packed`` projects
    queries, keys and values at once. ``activation``: one operator, relu (whose output is all it needs), the formula
    of NewGELUActivation, or BLOOM's, which backward computes again. ``parallel``: attention and MLP read the same
    input. ``dropout`` after both, of probability above 0; ``score_dropout`` in the attention. ``softmax_fp32``: eager
    attention's. ``soft_capping``: of scores and logits, by tanh. ``loss_fp32``: logits are cast to fp32 for the loss
    (loss/loss_utils.py: ForCausalLMLoss). ``bias``: position biases are added to the scores. Eager attention of
    ``named_scores`` holds them beside the masked ones (gpt-oss: those with sinks), and of ``returns_scores`` hands
    its weights to the model's loop. ``flash`` and ``sdpa``: whether the class takes them; ``masked``: it hands sdpa a
    mask even where causality says all. Mixtures: ``all_experts`` compute every token; ``transposes_experts``:
    multiplies by views of the weights; ``routing`` in fp32 of the experts' weights, or of the router's input too;
    ``gated_shared_experts`` are weighted by a gate of their own.
    """

    norm: Norm = "rms"
    post_norms: bool = False
    query_key_norm: bool = False
    rotary: bool = True
    partial_rotary: bool = False
    packed: bool = False
    activation: Activation = "fused"
    parallel: bool = False
    dropout: bool = False
    score_dropout: bool = False
    softmax_fp32: bool = True
    soft_capping: bool = False
    loss_fp32: bool = True
    bias: bool = False
    named_scores: bool = False
    returns_scores: bool = False
    flash: bool = True
    sdpa: bool = True
    masked: bool = False
    all_experts: bool = False
    transposes_experts: bool = True
    routing: Routing = "half"
    gated_shared_experts: bool = False


_LLAMA: Final = Family()
_GEMMA: Final = Family(norm="rms-fp32")
_GPT_NEOX: Final = Family(norm="layer", partial_rotary=True, packed=True, parallel=True)
_BERT: Final = Family(norm="layer", rotary=False, dropout=True, score_dropout=True, softmax_fp32=False, loss_fp32=False)
_FAMILIES: Final = {
    "qwen3": replace(_LLAMA, query_key_norm=True),
    "qwen3_moe": replace(_LLAMA, query_key_norm=True),
    "mixtral": replace(_LLAMA, routing="fp32-weights"),
    "qwen2_moe": replace(_LLAMA, gated_shared_experts=True),
    "llama4_text": replace(
        _LLAMA, query_key_norm=True, softmax_fp32=False, flash=False, all_experts=True, transposes_experts=False
    ),
    "deepseek_v2": replace(_LLAMA, routing="fp32"),
    "deepseek_v3": replace(_LLAMA, routing="fp32"),
    "dots1": replace(_LLAMA, query_key_norm=True, routing="fp32"),
    "glm4_moe": replace(_LLAMA, query_key_norm=True, partial_rotary=True, routing="fp32"),
    "olmoe": replace(_LLAMA, query_key_norm=True),
    "phimoe": replace(_LLAMA, norm="layer"),
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, post_norms=True, soft_capping=True, sdpa=False),
    "gemma3_text": replace(_GEMMA, post_norms=True, query_key_norm=True),
    "phi3": replace(_LLAMA, partial_rotary=True, packed=True),
    "gpt2": Family(
        norm="layer",
        rotary=False,
        packed=True,
        activation="composed",
        dropout=True,
        score_dropout=True,
        softmax_fp32=False,
    ),
    "glm": replace(_LLAMA, partial_rotary=True),
    "gpt_oss": replace(
        _GEMMA,
        partial_rotary=True,
        softmax_fp32=False,
        activation="composed",
        named_scores=True,
        sdpa=False,
        transposes_experts=False,
    ),
    "glm4": replace(_LLAMA, partial_rotary=True, post_norms=True),
    "exaone4": replace(_LLAMA, query_key_norm=True),
    "hunyuan_v1_dense": replace(_LLAMA, query_key_norm=True),
    "nemotron": Family(norm="layer", partial_rotary=True),
    "olmo2": replace(_GEMMA, query_key_norm=True),
    "olmo3": replace(_GEMMA, query_key_norm=True),
    "seed_oss": replace(_LLAMA, dropout=True, score_dropout=True),
    "stablelm": replace(_LLAMA, norm="layer", partial_rotary=True),
    "starcoder2": Family(norm="layer"),
    "phi": Family(norm="layer", partial_rotary=True, activation="composed", parallel=True),
    "gpt_bigcode": Family(norm="layer", rotary=False, packed=True, dropout=True, score_dropout=True),
    "bloom": Family(
        norm="layer",
        rotary=False,
        packed=True,
        activation="recomputed",
        bias=True,
        named_scores=True,
        returns_scores=True,
        flash=False,
        sdpa=False,
    ),
    "gpt_neox": _GPT_NEOX,
    "opt": Family(norm="layer", rotary=False, activation="relu", dropout=True),
    "mpt": Family(norm="layer", rotary=False, packed=True, returns_scores=True, flash=False, sdpa=False),
    "falcon": replace(
        _GPT_NEOX, partial_rotary=False, softmax_fp32=False, named_scores=True, returns_scores=True, masked=True
    ),
    "bert": _BERT,
    "roberta": _BERT,
    "t5": Family(
        norm="t5",
        rotary=False,
        activation="composed",
        dropout=True,
        score_dropout=True,
        softmax_fp32=False,
        loss_fp32=False,
        bias=True,
        flash=False,
    ),
}


@lru_cache
def family_of(model: ModelSpec) -> Family:
    """The family of a model; one that is not known is taken as Llama, or without a gate as GPT-NeoX."""
    name = model.architecture.lower().replace("-", "_")
    known = _FAMILIES.get(name) or _FAMILIES.get({"gemma3": "gemma3_text"}.get(name, ""))
    if known is None:
        known = {"encoder": _BERT, "encoder-decoder": _FAMILIES["t5"]}.get(model.kind)
    if known is None:
        known = _LLAMA if model.gated_mlp else _GPT_NEOX
    # an ungated T5 is of the first version, whose activation is relu
    return replace(known, activation="relu") if model.kind == "encoder-decoder" and not model.gated_mlp else known


def possible_attention(model: ModelSpec, asked: Attention) -> Attention:
    """What the class of Transformers 5.24 takes instead where it does not have what was asked for.

    ``_supports_flash_attn`` and ``_supports_sdpa`` of its classes: T5 and Llama 4 have no flash attention, Gemma 2 and
    gpt-oss no sdpa, MPT and BLOOM neither.
    """
    family = family_of(model)
    if asked == "flash" and not family.flash:
        asked = "sdpa"
    return "eager" if asked == "sdpa" and not family.sdpa else asked
