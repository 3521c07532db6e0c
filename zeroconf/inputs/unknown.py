"""An architecture that is not known, its number of parameters given beside the configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zeroconf.inputs.architectures.shape import (
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KEY_VALUE_HEADS,
    LAYERS,
    MLP,
    MOST_HEADS,
    VOCAB,
    positions,
)
from zeroconf.inputs.bare_size import read_bare_size
from zeroconf.inputs.config_json import MAX_LAYERS
from zeroconf.inputs.text import shown
from zeroconf.units import count

if TYPE_CHECKING:
    from zeroconf.inputs.config_json import Config
    from zeroconf.types import ModelKind, ModelSpec

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_EXPERT_SIZE = ("moe_intermediate_size", *MLP)


def _dense(config: Config, like: ModelSpec) -> ModelSpec:
    """The bare size's shape with what the configuration says, and what it does not as a note."""
    hidden = config.count(*HIDDEN, default=like.hidden_size)
    own_heads = like.num_attention_heads if hidden == like.hidden_size else max(1, hidden // like.head_dim)
    num_heads = config.count(*HEADS, default=own_heads, high=MOST_HEADS)
    vocab = config.count(*VOCAB, default=like.vocab_size)
    if vocab * hidden > like.num_parameters:
        config.fail(
            f"the vocabulary alone has {vocab} x {hidden} = {count(vocab * hidden)} parameters: --params is too low"
        )
    return replace(
        like,
        num_layers=config.count(*LAYERS, default=like.num_layers, high=MAX_LAYERS),
        hidden_size=hidden,
        intermediate_size=config.count(*MLP, default=4 * hidden),
        num_attention_heads=num_heads,
        num_key_value_heads=config.count(*KEY_VALUE_HEADS, default=num_heads, high=MOST_HEADS),
        head_dim=config.count(*HEAD_DIM, default=max(1, hidden // num_heads), high=MOST_HEADS),
        vocab_size=vocab,
        tied_embeddings=config.flag("tie_word_embeddings", default=False),
        max_sequence_length=positions(config),
    )


def _with_experts(config: Config, model: ModelSpec) -> ModelSpec:
    """A mixture of experts, were every layer sparse and every expert gated: what one token passes through."""
    number = config.count(*_EXPERTS, default=0, low=0, high=MOST_HEADS)
    if number == 0:
        return model
    per_token = config.count("num_experts_per_tok", default=number, high=number)
    size = config.count(*_EXPERT_SIZE, default=model.intermediate_size)
    idle = 3 * model.hidden_size * size * model.num_layers * (number - per_token)
    note = f"{per_token} of {number} experts for each token, in every layer: assumed"
    return replace(
        model,
        intermediate_size=size,
        num_experts=number,
        num_experts_per_token=per_token,
        # never less than what every token passes through
        num_active_parameters=max(model.num_parameters - idle, model.embedding_parameters),
        assumptions=(*model.assumptions, note),
    )


def _kind(config: Config) -> ModelKind:
    """Decoder, unless the configuration says otherwise: ``is_encoder_decoder``, or a class for masked tokens."""
    if config.flag("is_encoder_decoder", default=False):
        return "encoder-decoder"
    classes = config.values.get("architectures")
    masked = isinstance(classes, list) and any(str(name).endswith("ForMaskedLM") for name in classes)
    return "encoder" if masked else "decoder"


def spec_of_unknown(config: Config, family: str, size: str, *, name: str, source: str) -> ModelSpec:
    """A model of ``size`` parameters with Llama's blocks: layers, width, heads and vocabulary by their usual names.

    What it does not say is that of the bare size, and is named.

    Raises:
        InputError: no size, an absurd value, or a vocabulary that is larger than the model.
    """
    like = read_bare_size(size, "--params")
    missing = [keys[0] for keys in (LAYERS, HIDDEN, HEADS, VOCAB) if not any(config.has(key) for key in keys)]
    kind = _kind(config)
    family = shown(family)
    notes = [f"architecture '{family}' is not known: taken as a plain {kind} with {like.name} parameters (--params)"]
    if missing:
        notes.append(f"{', '.join(missing)}: not in the configuration, taken from a Llama-like decoder of that size")
    model = replace(
        _dense(config, like),
        name=name,
        architecture=family,
        kind=kind,
        gated_mlp=kind == "decoder",
        source=source,
        assumptions=tuple(notes),
    )
    return _with_experts(config, model)
