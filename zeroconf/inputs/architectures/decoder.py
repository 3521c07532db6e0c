"""Decoders of one plan: embeddings, blocks of attention and MLP (dense or of experts), a norm, the output matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.inputs.architectures.experts import EXPERTS
from zeroconf.inputs.architectures.shape import (
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KEY_VALUE_HEADS,
    MLP,
    MOST_HEADS,
    VOCAB,
    Shape,
    layer_norm,
    layers,
    linear,
    mlp,
    position_rows,
    positions,
)
from zeroconf.inputs.architectures.traits import TRAITS, Bias, Traits

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroconf.inputs.config_json import Config

# modeling_llama4.py: Llama4TextMoe repeats the tokens for each expert, and weights what they are not routed to by 0
_ALL_EXPERTS = "transformers computes every token with all experts of Llama 4, in memory and time"
_NORM = {"weights": 1, "biased": 2, "none": 0}


def read_bias(config: Config, bias: Bias) -> bool:
    """Whether a layer has biases."""
    return bias if isinstance(bias, bool) else config.flag(bias[0], default=bias[1])


def _head_shape(config: Config, traits: Traits, hidden: int) -> tuple[int, int, int]:
    """Heads of queries, heads of keys and values, and a head's width."""
    num_heads = config.count(*HEADS, high=MOST_HEADS)
    num_key_value = num_heads
    if traits.grouped:
        num_key_value = config.count(*KEY_VALUE_HEADS, default=num_heads, high=MOST_HEADS)
    if traits.multi_query and config.flag("multi_query", default=True):
        num_key_value = 1
    if num_heads % num_key_value:
        if not config.has(*KEY_VALUE_HEADS):
            config.fail(
                f"'num_key_value_heads' is missing; the {num_key_value} of transformers' class do not divide"
                f" 'num_attention_heads' {num_heads}"
            )
        config.fail(f"'num_attention_heads' {num_heads} is not a multiple of 'num_key_value_heads' {num_key_value}")
    if not config.knows(*HEAD_DIM) and hidden % num_heads:
        config.fail(f"'hidden_size' {hidden} is not a multiple of 'num_attention_heads' {num_heads}")
    return num_heads, num_key_value, config.count(*HEAD_DIM, default=max(1, hidden // num_heads), high=MOST_HEADS)


def _query_key_norms(config: Config, traits: Traits, num_heads: int, num_key_value: int, head_dim: int) -> int:
    if traits.norm_key and not config.flag(traits.norm_key, default=False):
        return 0
    widths = {"": 0, "head": 2, "head-biased": 4, "each": num_heads + num_key_value, "whole": num_heads + num_key_value}
    return widths[traits.query_key_norm] * head_dim


def _attention(config: Config, traits: Traits, hidden: int, head_shape: tuple[int, int, int]) -> int:
    num_heads, num_key_value, head_dim = head_shape
    query, key_value = num_heads * head_dim, num_key_value * head_dim
    return (
        linear(hidden, query + 2 * key_value, bias=read_bias(config, traits.query_bias))
        + linear(query, hidden, bias=read_bias(config, traits.output_bias))
        + _query_key_norms(config, traits, *head_shape)
        + (num_heads if traits.sinks else 0)
        + _cross_attention(config, traits, hidden)
    )


def _cross_attention(config: Config, traits: Traits, hidden: int) -> int:
    """An attention over an encoder's output, beside a decoder's own, and its norm."""
    if not traits.cross_attention or not config.flag("add_cross_attention", default=False):
        return 0
    if traits.multi_query and config.flag("multi_query", default=True):
        config.fail("'add_cross_attention' is not implemented with 'multi_query' (transformers 5.24)")
    return 4 * linear(hidden, hidden) + layer_norm(hidden)


def read_decoder(config: Config, family: str) -> Shape:
    """The shape of a family of the table."""
    traits = TRAITS[family]
    hidden, num_layers, vocab = config.count(*HIDDEN), layers(config), config.count(*VOCAB)
    dense_width = ("intermediate_size_mlp",) if family == "llama4_text" else MLP
    intermediate = config.count(*dense_width, default=traits.widening * hidden or None)
    num_heads, num_key_value, head_dim = head_shape = _head_shape(config, traits, hidden)
    norm = _NORM[traits.norm] * hidden
    tied = config.flag("tie_word_embeddings", default=False)

    experts = EXPERTS[family](config, num_layers) if family in EXPERTS else None
    sparse = experts if experts and experts.num_layers else None
    num_sparse, sparse_size = (sparse.num_layers, sparse.num_layers * sparse.layer) if sparse else (0, 0)
    dense = mlp(hidden, intermediate, gated=traits.gated, bias=read_bias(config, traits.mlp_bias))
    parallel = bool(traits.parallel_key) and config.flag(traits.parallel_key, default=False)
    block = _attention(config, traits, hidden, head_shape) + (1 if parallel else traits.norms_per_layer) * norm
    blocks = num_layers * block + (num_layers - num_sparse) * dense + sparse_size
    head = vocab if read_bias(config, traits.head_bias) else 0
    head += 0 if tied else vocab * hidden
    table = position_rows(config) * hidden if traits.learned_positions else 0
    total = blocks + vocab * hidden + table + norm * (2 if traits.embedding_norm else 1) + head
    return Shape(
        num_parameters=total,
        num_active_parameters=total - (sparse.idle if sparse else 0),
        num_layers=num_layers,
        hidden_size=hidden,
        intermediate_size=sparse.intermediate_size if sparse else intermediate,
        num_attention_heads=num_heads,
        num_key_value_heads=num_key_value,
        head_dim=head_dim,
        vocab_size=vocab,
        tied_embeddings=tied,
        max_sequence_length=positions(config),
        num_experts=sparse.num_experts if sparse else 0,
        num_experts_per_token=sparse.per_token if sparse else 0,
        shared_intermediate_size=sparse.shared_size if sparse else 0,
        num_dense_layers=num_layers - num_sparse if sparse else 0,
        dense_intermediate_size=intermediate if sparse and num_sparse < num_layers else 0,
        gated_mlp=traits.gated,
        assumptions=(_ALL_EXPERTS,) if family == "llama4_text" and sparse else (),
    )


def _reader(family: str) -> Callable[[Config], Shape]:
    return lambda config: read_decoder(config, family)


DECODERS = {family: _reader(family) for family in TRAITS}
