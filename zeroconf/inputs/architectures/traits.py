"""How the families of decoders differ from Llama, one line each.

Read in ``transformers/models/<family>/modeling_<family>.py`` and the defaults of ``configuration_<family>.py``
(5.24.0); InternLM2 and Baichuan in the Python files beside their weights on the Hugging Face hub.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

# always, never, or the key that decides with its default
Bias = bool | tuple[str, bool]
_ATTENTION_BIAS: Final = ("attention_bias", False)
_USE_BIAS: Final = ("use_bias", False)


class Traits(NamedTuple):
    """What decides a decoder's count.

    ``norm``: weights only, weights and biases, or nothing to learn. ``query_key_norm``: one weight vector for a
    head's width (and one of biases), one for each head, or one over all heads; ``norm_key`` says whether.
    ``parallel_key``: whether attention and MLP read the same norm. ``widening`` is the MLP's width over the model's.
    ``grouped``: keys and values can have fewer heads than queries; ``multi_query``: one, unless the key of that name
    says no; ``cross_attention``: another attention, over another model's output, where ``add_cross_attention`` says so.
    """

    norm: Literal["weights", "biased", "none"] = "weights"
    norms_per_layer: int = 2
    query_bias: Bias = False
    output_bias: Bias = False
    mlp_bias: Bias = False
    head_bias: Bias = False
    query_key_norm: Literal["", "head", "head-biased", "each", "whole"] = ""
    norm_key: str = ""
    parallel_key: str = ""
    gated: bool = True
    grouped: bool = True
    multi_query: bool = False
    widening: int = 0
    learned_positions: bool = False
    embedding_norm: bool = False
    cross_attention: bool = False
    sinks: bool = False


_LLAMA: Final = Traits(query_bias=_ATTENTION_BIAS, output_bias=_ATTENTION_BIAS, mlp_bias=("mlp_bias", False))
_PLAIN: Final = Traits()
_QWEN3: Final = Traits(query_bias=_ATTENTION_BIAS, output_bias=_ATTENTION_BIAS, query_key_norm="head")
_GEMMA: Final = Traits(query_bias=_ATTENTION_BIAS, output_bias=_ATTENTION_BIAS)
_GLM: Final = Traits(query_bias=("attention_bias", True))
_COHERE: Final = Traits(query_bias=_ATTENTION_BIAS, output_bias=_ATTENTION_BIAS, norms_per_layer=1)
_OLMO: Final = Traits(query_bias=_ATTENTION_BIAS, output_bias=_ATTENTION_BIAS)
_BIASED: Final = Traits(norm="biased", query_bias=True, output_bias=True, mlp_bias=True, gated=False, grouped=False)
_GPT_2: Final = _BIASED._replace(widening=4, learned_positions=True)
_GPT_J: Final = _BIASED._replace(query_bias=False, output_bias=False, head_bias=True, norms_per_layer=1, widening=4)

TRAITS: Final = {
    "llama": _LLAMA,
    "mistral": _PLAIN,
    "ministral": _PLAIN,
    "ministral3": _PLAIN,
    "qwen2": Traits(query_bias=True),
    "qwen3": _QWEN3,
    "gemma": _GEMMA,
    "gemma2": _GEMMA._replace(norms_per_layer=4),
    "gemma3_text": _GEMMA._replace(norms_per_layer=4, query_key_norm="head"),
    "phi3": _PLAIN,
    "glm": _GLM,
    "glm4": _GLM._replace(norms_per_layer=4),
    "granite": _LLAMA,
    "smollm3": _LLAMA,
    "seed_oss": Traits(
        query_bias=("attention_bias", True),
        output_bias=("attention_out_bias", False),
        mlp_bias=("mlp_bias", False),
    ),
    "ernie4_5": Traits(query_bias=_USE_BIAS, output_bias=_USE_BIAS, mlp_bias=_USE_BIAS),
    "hunyuan_v1_dense": _QWEN3,
    "exaone4": Traits(query_key_norm="head"),
    "internlm2": Traits(query_bias=("bias", False), output_bias=("bias", False)),
    "baichuan": _PLAIN,
    "cohere": _COHERE._replace(query_key_norm="each", norm_key="use_qk_norm"),
    "cohere2": _COHERE,
    "olmo": _OLMO._replace(norm="none"),
    "olmo2": _OLMO._replace(query_key_norm="whole"),
    "olmo3": _OLMO._replace(query_key_norm="whole"),
    "nemotron": Traits(
        norm="biased",
        query_bias=_ATTENTION_BIAS,
        output_bias=_ATTENTION_BIAS,
        mlp_bias=("mlp_bias", False),
        gated=False,
    ),
    "stablelm": Traits(
        norm="biased",
        query_bias=("use_qkv_bias", False),
        query_key_norm="each",
        norm_key="qk_layernorm",
        parallel_key="use_parallel_residual",
    ),
    "starcoder2": Traits(
        norm="biased",
        query_bias=("use_bias", True),
        output_bias=("use_bias", True),
        mlp_bias=("use_bias", True),
        gated=False,
    ),
    "phi": _BIASED._replace(
        norms_per_layer=1, head_bias=True, grouped=True, query_key_norm="head-biased", norm_key="qk_layernorm"
    ),
    "gpt2": _GPT_2._replace(cross_attention=True),
    "gpt_bigcode": _GPT_2._replace(multi_query=True, cross_attention=True),
    "gpt_neo": _GPT_2._replace(query_bias=False),
    "gptj": _GPT_J,
    "codegen": _GPT_J,
    "gpt_neox": _BIASED._replace(query_bias=("attention_bias", True), output_bias=("attention_bias", True)),
    "bloom": _BIASED._replace(widening=4, embedding_norm=True),
    "mpt": Traits(gated=False, widening=4, grouped=False),
    "mixtral": _PLAIN,
    "qwen2_moe": Traits(query_bias=("qkv_bias", True)),
    "qwen3_moe": _QWEN3,
    "olmoe": _OLMO._replace(query_key_norm="whole"),
    "granitemoe": Traits(query_bias=_ATTENTION_BIAS, output_bias=_ATTENTION_BIAS),
    "phimoe": Traits(
        norm="biased", query_bias=_ATTENTION_BIAS, output_bias=_ATTENTION_BIAS, head_bias=("lm_head_bias", False)
    ),
    "gpt_oss": Traits(query_bias=("attention_bias", True), output_bias=("attention_bias", True), sinks=True),
    "llama4_text": Traits(query_bias=_ATTENTION_BIAS, output_bias=_ATTENTION_BIAS),
    "glm4_moe": Traits(query_bias=_ATTENTION_BIAS, query_key_norm="head", norm_key="use_qk_norm"),
    "dots1": _QWEN3,
}
