"""Encoder-decoders: T5, BART and their relatives, Whisper.

Counts follow ``transformers/models/<family>/modeling_<family>.py`` (5.24.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from zeroconf.inputs.architectures.shape import MOST_HEADS, Shape, layer_norm, linear, mlp, position_rows, positions
from zeroconf.inputs.config_json import MAX_LAYERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroconf.inputs.config_json import Config

# T5Config.__post_init__ of 5.24.0 sets tie_word_embeddings whatever the file says
_UNTIED: Final = "the output matrix is counted apart from the embeddings, as saved; transformers 5 ties them"


def _t5_reader(*, gated: bool, tied: bool, table_per_layer: bool = False) -> Callable[[Config], Shape]:
    """T5 and its versions: relative positions in the first block of each stack (UMT5: in each), no biases."""
    feed_forward = "gated-gelu" if gated else "relu"

    def read(config: Config) -> Shape:
        hidden, vocab, intermediate = config.count("d_model"), config.count("vocab_size"), config.count("d_ff")
        encoder = config.count("num_layers", high=MAX_LAYERS)
        decoder = config.count("num_decoder_layers", default=encoder, high=MAX_LAYERS)
        num_heads = config.count("num_heads", high=MOST_HEADS)
        head_dim = config.count("d_kv", high=MOST_HEADS)
        said = config.word("feed_forward_proj", default=feed_forward)
        is_gated = config.flag("is_gated_act", default=said.startswith("gated-"))
        is_tied = config.flag("tie_word_embeddings", default=tied)
        attention = 4 * hidden * num_heads * head_dim + hidden
        block_mlp = mlp(hidden, intermediate, gated=is_gated, bias=False) + hidden
        stacks = encoder * (attention + block_mlp) + decoder * (2 * attention + block_mlp) + 2 * hidden
        table = config.count("relative_attention_num_buckets", default=32, high=10**6) * num_heads
        tables = table * (encoder + decoder if table_per_layer else 2)
        total = stacks + tables + vocab * hidden * (1 if is_tied else 2)
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
            tied_embeddings=is_tied,
            max_sequence_length=positions(config),
            kind="encoder-decoder",
            gated_mlp=is_gated,
            assumptions=() if is_tied else (f"{_UNTIED}: {vocab * hidden:,} fewer there",),
        )

    return read


class _Traits(NamedTuple):
    """How a relative of BART differs: ``positions`` adds rows to the table (None: none is held)."""

    embedding_norm: bool = False
    final_norm: bool = True
    extra_positions: int | None = 0


_BART: Final = {
    "bart": _Traits(embedding_norm=True, final_norm=False, extra_positions=2),
    "mbart": _Traits(embedding_norm=True, extra_positions=2),
    "pegasus": _Traits(),
    "marian": _Traits(final_norm=False),
    "blenderbot": _Traits(),
    "m2m_100": _Traits(extra_positions=None),
}


class _Stack(NamedTuple):
    num_layers: int
    num_heads: int
    intermediate: int


def _stack(config: Config, side: Literal["encoder", "decoder"], hidden: int) -> _Stack:
    num_heads = config.count(f"{side}_attention_heads", high=MOST_HEADS)
    if hidden % num_heads:
        config.fail(f"'d_model' {hidden} is not a multiple of '{side}_attention_heads' {num_heads}")
    return _Stack(config.count(f"{side}_layers", high=MAX_LAYERS), num_heads, config.count(f"{side}_ffn_dim"))


def _stacks(encoder: _Stack, decoder: _Stack, hidden: int, *, key_bias: bool) -> int:
    attention = 4 * linear(hidden, hidden) - (0 if key_bias else hidden)
    norm = layer_norm(hidden)
    one = attention + mlp(hidden, encoder.intermediate) + 2 * norm
    other = 2 * attention + mlp(hidden, decoder.intermediate) + 3 * norm
    return encoder.num_layers * one + decoder.num_layers * other


def _shape(config: Config, total: int, encoder: _Stack, decoder: _Stack, *, tied: bool, longest: int | None) -> Shape:
    hidden = config.count("d_model")
    return Shape(
        num_parameters=total,
        num_active_parameters=total,
        num_layers=encoder.num_layers + decoder.num_layers,
        hidden_size=hidden,
        intermediate_size=max(encoder.intermediate, decoder.intermediate),
        num_attention_heads=decoder.num_heads,
        num_key_value_heads=decoder.num_heads,
        head_dim=hidden // decoder.num_heads,
        vocab_size=config.count("vocab_size"),
        tied_embeddings=tied,
        max_sequence_length=longest,
        kind="encoder-decoder",
        gated_mlp=False,
    )


def _vocabulary_rows(config: Config, family: str, vocab: int, *, tied: bool) -> int:
    """Rows of all vocabulary matrices: one is shared, or untied from those of encoder, decoder and output.

    Marian can have two vocabularies, of which only the decoder's is tied to the output.
    """
    if family != "marian":
        return vocab * (1 if tied else 4)
    target = config.count("decoder_vocab_size", default=vocab)
    if config.flag("share_encoder_decoder_embeddings", default=True):
        return vocab if tied else 3 * vocab + target
    return vocab + target * (1 if tied else 2)


def _bart_reader(family: str) -> Callable[[Config], Shape]:
    traits = _BART[family]

    def read(config: Config) -> Shape:
        hidden, vocab = config.count("d_model"), config.count("vocab_size")
        encoder, decoder = _stack(config, "encoder", hidden), _stack(config, "decoder", hidden)
        tied = config.flag("tie_word_embeddings", default=True)
        norms = 2 * layer_norm(hidden) * (traits.embedding_norm + traits.final_norm)
        rows = 0 if traits.extra_positions is None else position_rows(config) + traits.extra_positions
        total = _stacks(encoder, decoder, hidden, key_bias=True) + norms + 2 * rows * hidden
        total += _vocabulary_rows(config, family, vocab, tied=tied) * hidden
        return _shape(config, total, encoder, decoder, tied=tied, longest=positions(config))

    return read


def _whisper(config: Config) -> Shape:
    hidden, vocab = config.count("d_model"), config.count("vocab_size")
    encoder, decoder = _stack(config, "encoder", hidden), _stack(config, "decoder", hidden)
    sources = config.count("max_source_positions", default=1500)
    targets = config.count("max_target_positions", default=448)
    mel = config.count("num_mel_bins", default=80, high=100_000)
    # two convolutions over three frames
    front = linear(3 * mel, hidden) + linear(3 * hidden, hidden)
    tied = config.flag("tie_word_embeddings", default=True)
    total = _stacks(encoder, decoder, hidden, key_bias=False) + 2 * layer_norm(hidden) + front
    total += (sources + targets) * hidden + vocab * hidden * (1 if tied else 2)
    note = f"the decoder is taken as long as the encoder, though it writes {targets} tokens at most: an upper bound"
    shape = _shape(config, total, encoder, decoder, tied=tied, longest=max(sources, targets))
    return shape._replace(assumptions=(note,))


SEQ2SEQ = {
    "t5": _t5_reader(gated=False, tied=True),
    "mt5": _t5_reader(gated=True, tied=True),
    "umt5": _t5_reader(gated=True, tied=True, table_per_layer=True),
    **{family: _bart_reader(family) for family in _BART},
    "whisper": _whisper,
}
