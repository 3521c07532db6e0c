"""Decoders with RMSNorm and rotary positions: Llama and its relatives, dense or with experts.

Counts follow ``transformers/models/<family>/modeling_<family>.py`` (5.24.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zeroconf.inputs.architectures.shape import Shape, linear
from zeroconf.inputs.config_json import MAX_LAYERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroconf.inputs.config_json import Config


class Traits(NamedTuple):
    """How a family differs from Llama. Biases are None where ``attention_bias`` / ``mlp_bias`` decide."""

    query_bias: bool | None = None
    output_bias: bool | None = None
    mlp_bias: bool | None = False
    query_key_norm: bool = False
    norms_per_layer: int = 2
    tied: bool = False
    head_dim: int | None = None
    key_value_heads: int | None = None


_FAMILIES = {
    "llama": Traits(mlp_bias=None),
    "mistral": Traits(query_bias=False, output_bias=False, key_value_heads=8),
    "qwen2": Traits(query_bias=True, output_bias=False),
    "qwen3": Traits(query_key_norm=True, head_dim=128),
    "gemma": Traits(tied=True, head_dim=256),
    "gemma2": Traits(tied=True, head_dim=256, norms_per_layer=4),
    "gemma3_text": Traits(tied=True, head_dim=256, norms_per_layer=4, query_key_norm=True),
    "phi3": Traits(query_bias=False, output_bias=False),
    "mixtral": Traits(query_bias=False, output_bias=False, key_value_heads=8),
    "qwen2_moe": Traits(query_bias=True, output_bias=False),
    "qwen3_moe": Traits(query_key_norm=True),
}


class Experts(NamedTuple):
    """One sparse layer's experts, in elements; ``num_layers`` counts the sparse layers."""

    num_layers: int
    num_experts: int
    per_token: int
    intermediate_size: int
    expert: int
    always_on: int

    @property
    def layer(self) -> int:
        """Elements of one sparse layer's MLP, all experts."""
        return self.num_experts * self.expert + self.always_on

    @property
    def idle(self) -> int:
        """Elements over all layers that one token does not pass through."""
        return self.num_layers * (self.num_experts - self.per_token) * self.expert


def _sparse_layers(config: Config, num_layers: int) -> int:
    dense = set(config.counts("mlp_only_layers"))
    step = config.count("decoder_sparse_step", default=1, high=MAX_LAYERS)
    return sum(1 for layer in range(num_layers) if layer not in dense and (layer + 1) % step == 0)


def experts(config: Config, num_layers: int, *, shared: int = 0, size_key: str = "moe_intermediate_size") -> Experts:
    """Read the experts: gate, up and down projections each; a router, and what every token passes through."""
    hidden = config.count("hidden_size")
    size = config.count(size_key)
    number = config.count("num_local_experts", "num_experts", "n_routed_experts", high=100_000)
    per_token = config.count("num_experts_per_tok", high=number)
    return Experts(
        num_layers=num_layers,
        num_experts=number,
        per_token=per_token,
        intermediate_size=size,
        expert=3 * hidden * size,
        always_on=hidden * number + shared,
    )


def _no_experts(config: Config, num_layers: int) -> None:
    del config, num_layers


def _mixtral(config: Config, num_layers: int) -> Experts:
    return experts(config, num_layers, size_key="intermediate_size")


def _qwen2_moe(config: Config, num_layers: int) -> Experts:
    hidden = config.count("hidden_size")
    shared = 3 * hidden * config.count("shared_expert_intermediate_size") + hidden
    return experts(config, _sparse_layers(config, num_layers), shared=shared)


def _qwen3_moe(config: Config, num_layers: int) -> Experts:
    return experts(config, _sparse_layers(config, num_layers))


_EXPERTS = {"mixtral": _mixtral, "qwen2_moe": _qwen2_moe, "qwen3_moe": _qwen3_moe}


def _head_shape(config: Config, traits: Traits, hidden: int) -> tuple[int, int, int]:
    num_heads = config.count("num_attention_heads", high=100_000)
    num_key_value = config.count("num_key_value_heads", default=traits.key_value_heads or num_heads, high=100_000)
    if num_heads % num_key_value:
        config.fail(f"'num_attention_heads' {num_heads} is not a multiple of 'num_key_value_heads' {num_key_value}")
    if not config.has("head_dim") and traits.head_dim is None and hidden % num_heads:
        config.fail(f"'hidden_size' {hidden} is not a multiple of 'num_attention_heads' {num_heads}")
    head_dim = config.count("head_dim", default=traits.head_dim or hidden // num_heads, high=100_000)
    return num_heads, num_key_value, head_dim


def _read(config: Config, family: str) -> Shape:
    traits = _FAMILIES[family]
    hidden = config.count("hidden_size")
    layers = config.count("num_hidden_layers", high=MAX_LAYERS)
    vocab = config.count("vocab_size")
    intermediate = config.count("intermediate_size")
    num_heads, num_key_value, head_dim = _head_shape(config, traits, hidden)
    attention_bias = config.flag("attention_bias", default=False)
    query_bias = attention_bias if traits.query_bias is None else traits.query_bias
    if family == "qwen2_moe":
        query_bias = config.flag("qkv_bias", default=True)
    output_bias = attention_bias if traits.output_bias is None else traits.output_bias
    mlp_bias = config.flag("mlp_bias", default=False) if traits.mlp_bias is None else traits.mlp_bias
    tied = config.flag("tie_word_embeddings", default=traits.tied)

    query, key_value = num_heads * head_dim, num_key_value * head_dim
    attention = linear(hidden, query + 2 * key_value, bias=query_bias) + linear(query, hidden, bias=output_bias)
    if traits.query_key_norm:
        attention += 2 * head_dim
    mlp = 2 * linear(hidden, intermediate, bias=mlp_bias) + linear(intermediate, hidden, bias=mlp_bias)
    sparse = _EXPERTS.get(family, _no_experts)(config, layers)
    mlps = layers * mlp if sparse is None else (layers - sparse.num_layers) * mlp + sparse.num_layers * sparse.layer
    total = layers * (attention + traits.norms_per_layer * hidden) + mlps + vocab * hidden * (1 if tied else 2) + hidden
    return Shape(
        num_parameters=total,
        num_active_parameters=total - (sparse.idle if sparse else 0),
        num_layers=layers,
        hidden_size=hidden,
        intermediate_size=sparse.intermediate_size if sparse else intermediate,
        num_attention_heads=num_heads,
        num_key_value_heads=num_key_value,
        head_dim=head_dim,
        vocab_size=vocab,
        tied_embeddings=tied,
        max_sequence_length=config.count("max_position_embeddings", default=0, low=0, high=10**9) or None,
        num_experts=sparse.num_experts if sparse else 0,
        num_experts_per_token=sparse.per_token if sparse else 0,
    )


def _reader(family: str) -> Callable[[Config], Shape]:
    return lambda config: _read(config, family)


ROTARY = {family: _reader(family) for family in _FAMILIES}
