"""Encoders: BERT and its relatives, ViT.

Counts follow ``transformers/models/<family>/modeling_<family>.py`` (5.24.0): the model without a task's head, BERT with
its pooler, ViT with its classifier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.inputs.architectures.shape import (
    HIDDEN,
    MLP,
    Shape,
    heads,
    layer_norm,
    layers,
    linear,
    mlp,
    position_rows,
)
from zeroconf.inputs.architectures.vision import image_encoder, num_patches

if TYPE_CHECKING:
    from zeroconf.inputs.config_json import Config

_NO_HEAD = "the encoder is counted without a task's head"
# transformers' number of labels where id2label does not list them
_DEFAULT_LABELS = 2


def _encoder(config: Config, total: int, vocab: int, longest: int, *notes: str) -> Shape:
    hidden = config.count(*HIDDEN)
    num_heads = heads(config, hidden)
    return Shape(
        num_parameters=total,
        num_active_parameters=total,
        num_layers=layers(config),
        hidden_size=hidden,
        intermediate_size=config.count(*MLP),
        num_attention_heads=num_heads,
        num_key_value_heads=num_heads,
        head_dim=hidden // num_heads,
        vocab_size=vocab,
        tied_embeddings=True,
        max_sequence_length=longest,
        kind="encoder",
        gated_mlp=False,
        assumptions=notes,
    )


def _block(config: Config, hidden: int) -> int:
    return 4 * linear(hidden, hidden) + mlp(hidden, config.count(*MLP)) + 2 * layer_norm(hidden)


def _bert(config: Config) -> Shape:
    hidden, vocab, longest = config.count(*HIDDEN), config.count("vocab_size"), position_rows(config)
    rows = vocab + longest + config.count("type_vocab_size", default=2, high=1000)
    pooler = linear(hidden, hidden)
    total = rows * hidden + layer_norm(hidden) + layers(config) * _block(config, hidden) + pooler
    return _encoder(config, total, vocab, longest, f"{_NO_HEAD}, but with its pooler")


def _roberta(config: Config) -> Shape:
    shape = _bert(config)
    # RoBERTa numbers positions from padding_idx + 1, so two rows of its table are no positions
    return shape._replace(max_sequence_length=max(1, (shape.max_sequence_length or 1) - 2))


def _distilbert(config: Config) -> Shape:
    hidden, vocab, longest = config.count(*HIDDEN), config.count("vocab_size"), position_rows(config)
    total = (vocab + longest) * hidden + layer_norm(hidden) + layers(config) * _block(config, hidden)
    return _encoder(config, total, vocab, longest, _NO_HEAD)


def _modernbert(config: Config) -> Shape:
    hidden, vocab = config.count(*HIDDEN), config.count("vocab_size")
    norm = hidden * (2 if config.flag("norm_bias", default=False) else 1)
    attention_bias, mlp_bias = config.flag("attention_bias", default=False), config.flag("mlp_bias", default=False)
    attention = linear(hidden, 3 * hidden, bias=attention_bias) + linear(hidden, hidden, bias=attention_bias)
    block = attention + mlp(hidden, config.count(*MLP), gated=True, bias=mlp_bias) + 2 * norm
    # the first block has no norm before its attention: the embeddings have one
    total = vocab * hidden + norm + layers(config) * block - norm + norm
    return _encoder(config, total, vocab, position_rows(config), _NO_HEAD)._replace(gated_mlp=True)


def _vit(config: Config) -> Shape:
    hidden = config.count(*HIDDEN)
    labels = config.part("id2label")
    num_labels = len(labels.values) if labels else config.count("num_labels", default=_DEFAULT_LABELS)
    longest = num_patches(config) + 1
    # a classifier reads one token, so that this is the only vocabulary there is
    total = image_encoder(config) + linear(hidden, num_labels)
    note = f"ViT with its classifier of {num_labels} labels; a sequence is an image's {longest} tokens"
    return _encoder(config, total, num_labels, longest, note)._replace(tied_embeddings=False)


ENCODERS = {
    "bert": _bert,
    "roberta": _roberta,
    "xlm-roberta": _roberta,
    "camembert": _roberta,
    "distilbert": _distilbert,
    "modernbert": _modernbert,
    "vit": _vit,
}
