"""Decoders whose blocks do not fit the table: OPT, Falcon, ChatGLM.

Counts follow ``transformers/models/<family>/modeling_<family>.py`` (5.24.0), ChatGLM's ``modeling_chatglm.py`` beside
its weights on the Hugging Face hub.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.inputs.architectures.shape import (
    HIDDEN,
    MLP,
    MOST_HEADS,
    VOCAB,
    Shape,
    heads,
    layer_norm,
    layers,
    linear,
    mlp,
    position_rows,
    positions,
)

if TYPE_CHECKING:
    from zeroconf.inputs.config_json import Config

# Falcon has rotary or ALiBi positions, so that its first releases do not say how many there are
_FALCON_POSITIONS = 2048
# modeling_falcon.py, build_alibi_tensor: biases for each head, which are added to all scores
_ALIBI = "position biases (alibi) are not counted: attention takes more memory than is said"


def _shape(config: Config, total: int, intermediate: int, *, tied: bool, num_key_value_heads: int | None) -> Shape:
    hidden = config.count(*HIDDEN)
    num_heads = heads(config, hidden)
    return Shape(
        num_parameters=total,
        num_active_parameters=total,
        num_layers=layers(config),
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_attention_heads=num_heads,
        num_key_value_heads=num_key_value_heads or num_heads,
        head_dim=hidden // num_heads,
        vocab_size=config.count(*VOCAB),
        tied_embeddings=tied,
        max_sequence_length=positions(config),
        gated_mlp=False,
    )


def _opt(config: Config) -> Shape:
    hidden, vocab = config.count(*HIDDEN), config.count(*VOCAB)
    intermediate = config.count("ffn_dim")
    tied = config.flag("tie_word_embeddings", default=True)
    bias = config.flag("enable_bias", default=True)
    norm = layer_norm(hidden) if config.flag("layer_norm_elementwise_affine", default=True) else 0
    word_width = config.count("word_embed_proj_dim", default=hidden)
    attention = 4 * linear(hidden, hidden, bias=bias)
    block = 2 * norm + attention + mlp(hidden, intermediate, bias=bias)
    projections = 2 * hidden * word_width if word_width != hidden else 0
    final_norm = config.flag("do_layer_norm_before", default=True) and not config.flag(
        "_remove_final_layer_norm", default=False
    )
    # OPT's position table has two rows more than positions
    embeddings = vocab * word_width * (1 if tied else 2) + (position_rows(config) + 2) * hidden
    total = layers(config) * block + embeddings + projections + (norm if final_norm else 0)
    return _shape(config, total, intermediate, tied=tied, num_key_value_heads=None)


def _falcon(config: Config) -> Shape:
    hidden, vocab = config.count(*HIDDEN), config.count(*VOCAB)
    intermediate = config.count("ffn_hidden_size", default=4 * hidden)
    num_heads = heads(config, hidden)
    bias = config.flag("bias", default=False)
    new = config.flag("new_decoder_architecture", default=False)
    num_key_value = config.count("num_kv_heads", "n_head_kv", default=num_heads, high=num_heads) if new else num_heads
    if not new and config.flag("multi_query", default=True):
        num_key_value = 1
    # the model has two norms when attention and MLP run one after the other, or in parallel with one each
    parallel = config.flag("parallel_attn", default=True)
    norms = config.count("num_ln_in_parallel_attn", default=2 if new else 1, high=2) if parallel else 2
    query_key_value = (num_heads + 2 * num_key_value) * (hidden // num_heads)
    attention = linear(hidden, query_key_value, bias=bias) + linear(hidden, hidden, bias=bias)
    tied = config.flag("tie_word_embeddings", default=True)
    block = norms * layer_norm(hidden) + attention + mlp(hidden, intermediate, bias=bias)
    total = layers(config) * block + vocab * hidden * (1 if tied else 2) + layer_norm(hidden)
    shape = _shape(config, total, intermediate, tied=tied, num_key_value_heads=num_key_value)
    notes = (_ALIBI,) if config.flag("alibi", default=False) else ()
    return shape._replace(max_sequence_length=shape.max_sequence_length or _FALCON_POSITIONS, assumptions=notes)


def _chatglm(config: Config) -> Shape:
    hidden, vocab, intermediate = config.count(*HIDDEN), config.count(*VOCAB), config.count(*MLP)
    num_heads = config.count("num_attention_heads", high=MOST_HEADS)
    head_dim = config.count("kv_channels", default=max(1, hidden // num_heads), high=MOST_HEADS)
    grouped = config.flag("multi_query_attention", default=False)
    num_key_value = config.count("multi_query_group_num", default=1, high=num_heads) if grouped else num_heads
    bias = config.flag("add_bias_linear", default=False)
    query, query_key_value = num_heads * head_dim, (num_heads + 2 * num_key_value) * head_dim
    attention = linear(hidden, query_key_value, bias=bias or config.flag("add_qkv_bias", default=False))
    attention += linear(query, hidden, bias=bias)
    norm = hidden if config.flag("rmsnorm", default=True) else layer_norm(hidden)
    final_norm = norm if config.flag("post_layer_norm", default=True) else 0
    tied = config.flag("tie_word_embeddings", default=False)
    block = 2 * norm + attention + mlp(hidden, intermediate, gated=True, bias=bias)
    total = layers(config) * block + final_norm + vocab * hidden * (1 if tied else 2)
    shape = _shape(config, total, intermediate, tied=tied, num_key_value_heads=num_key_value)
    return shape._replace(gated_mlp=True, head_dim=head_dim)


SPECIAL = {"opt": _opt, "falcon": _falcon, "chatglm": _chatglm}
