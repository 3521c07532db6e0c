"""Transformers with LayerNorm: GPT-2, GPT-NeoX, OPT, Falcon, BERT, T5.

Counts follow ``transformers/models/<family>/modeling_<family>.py`` (5.24.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.inputs.architectures.shape import Shape, heads, layer_norm, linear
from zeroconf.inputs.config_json import MAX_LAYERS

if TYPE_CHECKING:
    from zeroconf.inputs.config_json import Config
    from zeroconf.types import ModelKind


def _mlp(hidden: int, intermediate: int, *, bias: bool = True) -> int:
    return linear(hidden, intermediate, bias=bias) + linear(intermediate, hidden, bias=bias)


def _positions(config: Config) -> int:
    return config.count("max_position_embeddings", "n_positions", high=10**9)


def _shape(
    config: Config,
    total: int,
    intermediate: int,
    *,
    tied: bool,
    num_key_value_heads: int | None = None,
    kind: ModelKind = "decoder",
    assumptions: tuple[str, ...] = (),
) -> Shape:
    hidden = config.count("hidden_size", "n_embd")
    num_heads = heads(config, hidden)
    return Shape(
        num_parameters=total,
        num_active_parameters=total,
        num_layers=config.count("num_hidden_layers", "n_layer", high=MAX_LAYERS),
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_attention_heads=num_heads,
        num_key_value_heads=num_key_value_heads or num_heads,
        head_dim=hidden // num_heads,
        vocab_size=config.count("vocab_size"),
        tied_embeddings=tied,
        max_sequence_length=_positions(config),
        kind=kind,
        gated_mlp=False,
        assumptions=assumptions,
    )


def _gpt2(config: Config) -> Shape:
    hidden = config.count("hidden_size", "n_embd")
    layers = config.count("num_hidden_layers", "n_layer", high=MAX_LAYERS)
    intermediate = config.count("n_inner", "intermediate_size", default=4 * hidden)
    vocab = config.count("vocab_size")
    tied = config.flag("tie_word_embeddings", default=True)
    block = 2 * layer_norm(hidden) + linear(hidden, 3 * hidden) + linear(hidden, hidden) + _mlp(hidden, intermediate)
    embeddings = vocab * hidden * (1 if tied else 2) + _positions(config) * hidden
    return _shape(config, layers * block + embeddings + layer_norm(hidden), intermediate, tied=tied)


def _gpt_neox(config: Config) -> Shape:
    hidden = config.count("hidden_size")
    layers = config.count("num_hidden_layers", high=MAX_LAYERS)
    intermediate = config.count("intermediate_size")
    vocab = config.count("vocab_size")
    tied = config.flag("tie_word_embeddings", default=False)
    bias = config.flag("attention_bias", default=True)
    attention = linear(hidden, 3 * hidden, bias=bias) + linear(hidden, hidden, bias=bias)
    block = 2 * layer_norm(hidden) + attention + _mlp(hidden, intermediate)
    total = layers * block + vocab * hidden * (1 if tied else 2) + layer_norm(hidden)
    return _shape(config, total, intermediate, tied=tied)


def _opt(config: Config) -> Shape:
    hidden = config.count("hidden_size")
    layers = config.count("num_hidden_layers", high=MAX_LAYERS)
    intermediate = config.count("ffn_dim", "intermediate_size")
    vocab = config.count("vocab_size")
    tied = config.flag("tie_word_embeddings", default=True)
    bias = config.flag("enable_bias", default=True)
    norm = layer_norm(hidden) if config.flag("layer_norm_elementwise_affine", default=True) else 0
    word_width = config.count("word_embed_proj_dim", default=hidden)
    attention = 4 * linear(hidden, hidden, bias=bias)
    block = 2 * norm + attention + _mlp(hidden, intermediate, bias=bias)
    projections = 2 * hidden * word_width if word_width != hidden else 0
    final_norm = config.flag("do_layer_norm_before", default=True) and not config.flag(
        "_remove_final_layer_norm", default=False
    )
    # OPT's position table has two rows more than positions
    embeddings = vocab * word_width * (1 if tied else 2) + (_positions(config) + 2) * hidden
    total = layers * block + embeddings + projections + (norm if final_norm else 0)
    return _shape(config, total, intermediate, tied=tied)


def _falcon(config: Config) -> Shape:
    hidden = config.count("hidden_size")
    layers = config.count("num_hidden_layers", "n_layer", high=MAX_LAYERS)
    intermediate = config.count("ffn_hidden_size", default=4 * hidden)
    vocab = config.count("vocab_size")
    num_heads = heads(config, hidden)
    bias = config.flag("bias", default=False)
    new = config.flag("new_decoder_architecture", default=False)
    num_key_value = config.count("num_kv_heads", default=num_heads, high=num_heads) if new else num_heads
    if not new and config.flag("multi_query", default=True):
        num_key_value = 1
    # the model has two norms when attention and MLP run one after the other, or in parallel with one each
    parallel = config.flag("parallel_attn", default=True)
    norms = config.count("num_ln_in_parallel_attn", default=2 if new else 1, high=2) if parallel else 2
    query_key_value = (num_heads + 2 * num_key_value) * (hidden // num_heads)
    attention = linear(hidden, query_key_value, bias=bias) + linear(hidden, hidden, bias=bias)
    tied = config.flag("tie_word_embeddings", default=True)
    block = norms * layer_norm(hidden) + attention + _mlp(hidden, intermediate, bias=bias)
    total = layers * block + vocab * hidden * (1 if tied else 2) + layer_norm(hidden)
    if not config.has("max_position_embeddings"):
        config = type(config)({**config.values, "max_position_embeddings": 2048}, config.where)
    return _shape(config, total, intermediate, tied=tied, num_key_value_heads=num_key_value)


def _bert(config: Config) -> Shape:
    hidden = config.count("hidden_size")
    layers = config.count("num_hidden_layers", high=MAX_LAYERS)
    intermediate = config.count("intermediate_size")
    types = config.count("type_vocab_size", default=2, high=1000)
    rows = config.count("vocab_size") + _positions(config) + types
    block = 4 * linear(hidden, hidden) + _mlp(hidden, intermediate) + 2 * layer_norm(hidden)
    total = rows * hidden + layer_norm(hidden) + layers * block + linear(hidden, hidden)
    note = "the encoder with its pooler is counted, without a task's head"
    return _shape(config, total, intermediate, tied=True, kind="encoder", assumptions=(note,))


def _roberta(config: Config) -> Shape:
    shape = _bert(config)
    # RoBERTa numbers positions from padding_idx + 1, so two rows of its table are no positions
    return shape._replace(max_sequence_length=max(1, (shape.max_sequence_length or 1) - 2))


def _t5(config: Config) -> Shape:
    hidden = config.count("d_model")
    encoder = config.count("num_layers", high=MAX_LAYERS)
    decoder = config.count("num_decoder_layers", default=encoder, high=MAX_LAYERS)
    intermediate = config.count("d_ff")
    vocab = config.count("vocab_size")
    num_heads = config.count("num_heads", high=100_000)
    head_dim = config.count("d_kv", high=100_000)
    gated = config.word("feed_forward_proj", default="relu").startswith("gated-")
    tied = config.flag("tie_word_embeddings", default=True)
    attention = 4 * hidden * num_heads * head_dim + hidden
    mlp = (3 if gated else 2) * hidden * intermediate + hidden
    # the first self-attention of each stack holds the relative position table
    position_tables = 2 * config.count("relative_attention_num_buckets", default=32, high=10**6) * num_heads
    stacks = encoder * (attention + mlp) + decoder * (2 * attention + mlp) + 2 * hidden
    total = stacks + position_tables + vocab * hidden * (1 if tied else 2)
    return Shape(
        num_parameters=total,
        num_active_parameters=total,
        num_layers=encoder + decoder,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_attention_heads=num_heads,
        num_key_value_heads=num_heads,
        head_dim=head_dim,
        vocab_size=vocab,
        tied_embeddings=tied,
        max_sequence_length=config.count("n_positions", default=0, low=0, high=10**9) or None,
        kind="encoder-decoder",
        gated_mlp=gated,
    )


CLASSIC = {
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
    "falcon": _falcon,
    "bert": _bert,
    "roberta": _roberta,
    "xlm-roberta": _roberta,
    "t5": _t5,
}
