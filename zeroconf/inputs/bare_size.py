"""A dense decoder of a given size: shape interpolated between well-known ones, so that ``7B`` means something."""

from __future__ import annotations

import itertools
import math

from zeroconf.errors import InputError
from zeroconf.inputs import catalogue
from zeroconf.inputs.text import shown
from zeroconf.types import ModelSpec
from zeroconf.units import count, parse_count, round_up

SMALLEST, LARGEST = 10**6, 2 * 10**12

# one dense decoder per size class, so that width and depth grow with the size
_ANCHORS = (
    "pythia-70m",
    "pythia-160m",
    "pythia-410m",
    "pythia-1b",
    "pythia-2.8b",
    "llama-7b",
    "llama-13b",
    "llama-30b",
    "llama-2-70b",
    "llama-3.1-405b",
)
_GROUPED_FROM = 20_000_000_000
_NUM_GROUPED_HEADS = 8


def _anchors() -> list[ModelSpec]:
    return [catalogue.spec(entry, name) for name in _ANCHORS if (entry := catalogue.find(name))]


def _interpolate(size: int, anchors: list[ModelSpec], field: str) -> float:
    """Log-log between the two neighbours, or along the outermost two beyond them."""
    pairs = list(itertools.pairwise(anchors))
    low, high = next((pair for pair in pairs if size <= pair[1].num_parameters), pairs[-1])
    share = math.log(size / low.num_parameters) / math.log(high.num_parameters / low.num_parameters)
    start, end = math.log(getattr(low, field)), math.log(getattr(high, field))
    return math.exp(start + share * (end - start))


def _round_width(width: float) -> int:
    step = 128 if width < 2048 else 512 if width < 6144 else 1024
    return max(128, round(width / step) * step)


def _close(blocks: int, layers: int, attention: int, hidden: int) -> tuple[int, int]:
    """Layers and the gated MLP's width that make the blocks as large as asked.

    The width stays within 2 to 4 times the hidden size; where that does not suffice, the layers give way.
    """
    width = round((blocks / layers - attention) / (3 * hidden) / 128) * 128
    if not 2 * hidden <= width <= 4 * hidden:
        width = min(max(width, 2 * hidden), 4 * hidden)
        layers = max(1, round(blocks / (attention + 3 * hidden * width)))
    return layers, width


def read_bare_size(text: str, what: str = "model size") -> ModelSpec:
    """``7B`` or ``350M`` as a Llama-like decoder with exactly that many parameters.

    Layers, width, heads and vocabulary come from the catalogue's decoders of neighbouring size; the MLP's
    width then closes the count as well as a multiple of 128 can.

    Raises:
        InputError: no size, or outside 1M to 2T.
    """
    size = parse_count(text, what)
    if not SMALLEST <= size <= LARGEST:
        msg = f"{what} '{shown(text)}' is out of range; give 1M to 2T, like 7B"
        raise InputError(msg)
    anchors = _anchors()
    hidden = _round_width(_interpolate(size, anchors, "hidden_size"))
    layers = max(1, round(_interpolate(size, anchors, "num_layers")))
    head_dim = 64 if hidden <= 1024 else 128
    num_heads = hidden // head_dim
    num_key_value = math.gcd(num_heads, _NUM_GROUPED_HEADS) if size >= _GROUPED_FROM else num_heads
    nearest = min(anchors, key=lambda anchor: abs(math.log(anchor.num_parameters / size)))
    # a tiny model spends at most a third of its parameters on the vocabulary
    vocab = min(nearest.vocab_size, max(128, round_up(size // (3 * hidden), 128)))
    tied = 2 * vocab * hidden > size // 3
    attention = 2 * hidden * hidden + 2 * hidden * num_key_value * head_dim
    layers, intermediate = _close(size - vocab * hidden * (1 if tied else 2), layers, attention, hidden)
    note = (
        f"a dense decoder of {count(size)} parameters: {layers} layers, width {hidden}, MLP width {intermediate}, "
        f"{num_heads} heads ({num_key_value} for keys and values) of {head_dim}, vocabulary {vocab}"
    )
    return ModelSpec(
        name=count(size),
        architecture="llama",
        num_parameters=size,
        num_active_parameters=size,
        num_layers=layers,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_attention_heads=num_heads,
        num_key_value_heads=num_key_value,
        head_dim=head_dim,
        vocab_size=vocab,
        tied_embeddings=tied,
        max_sequence_length=None,
        source="a bare size; shape interpolated from the catalogue's dense decoders",
        assumptions=(note,),
    )
