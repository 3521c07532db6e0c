"""Weights that bitsandbytes packs into 4 bits: which of a model's they are, and what they take in a step.

Read in Transformers 5.24 (integrations/bitsandbytes.py: replace_with_bnb_linear), bitsandbytes 0.50.2
(functional.py: quantize_4bit; autograd/_functions.py: MatMul4Bit) and peft 0.21; counted in
tests/integration/test_quantized_real.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeroconf.estimate.optimizers import BLOCK_ELEMENTS
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from zeroconf.choices import Quantization
    from zeroconf.estimate.sizes import Sizes
    from zeroconf.types import ModelSpec

FP32: Final = 4
# a 16-bit element holds four weights (bnb_4bit_quant_storage)
PACKED: Final = 4
# weights that share a maximum (absmax): Params4bit's default
QUANTIZATION_BLOCK: Final = 64


def packed_weights(model: ModelSpec) -> int:
    """Elements of the linear layers that are quantized: those of the blocks.

    Embeddings, the output matrix and norms stay as they are, and so do experts and their routers, which Transformers 5
    holds as plain parameters. Llama-3-8B: 8.03e9 - 2 x 525e6 - 65 x 4096 = 6.98e9.
    """
    vocabularies = model.embedding_parameters * (1 if model.tied_embeddings else 2)
    experts = model.num_experts * model.hidden_size * (model.intermediate_size * (3 if model.gated_mlp else 2) + 1)
    norms = (2 * model.num_layers + 1) * model.hidden_size
    return max(0, model.num_parameters - vocabularies - norms - model.num_layers * experts)


def absmax_bytes(elements: int, quantize: Quantization) -> int:
    """The maxima of the blocks: fp32, or with double quantization 8 bits and an fp32 maximum for 256 of them.

    6.98e9 weights: 436e6 bytes, or 111e6.
    """
    blocks = ceil_div(elements, QUANTIZATION_BLOCK)
    if quantize == "nf4":
        return FP32 * blocks
    return blocks + FP32 * ceil_div(blocks, BLOCK_ELEMENTS)


def packed(s: Sizes, model: ModelSpec, quantize: Quantization, *, recomputed: bool) -> Sizes:
    """The symbols where linear layers are packed: four weights count as one element.

    The maxima are attributes of the parameters, so that no stage partitions them. Forward and backward each have one
    layer's weights in 16 bits for the multiplication; Llama-3-8B: 14336 x 4096 x 2 bytes. MatMul4Bit keeps a view of
    the packed weight for backward, which outlives stage 3's release, unless blocks are ``recomputed`` reentrantly
    (without reentrance the view stays too, as no hook for saved tensors sees it).
    """
    quantized = packed_weights(model)
    spared = quantized - ceil_div(quantized, PACKED)
    total, layer = s.total - spared, s.layer - spared // max(1, model.num_layers)
    inner = s.largest_inner if model.num_experts else s.largest_inner // PACKED
    linear = model.hidden_size * max(model.query_size, 0 if model.num_experts else model.intermediate_size)
    return replace(
        s,
        total=total,
        unpacked=s.total,
        frozen_shard=ceil_div(total - s.trainable, s.world_size),
        layer=max(1, layer),
        largest_inner=inner,
        last=inner if model.tied_embeddings else s.last,
        retained=min(total, s.retained),
        saved_linear=0 if recomputed else quantized - spared,
        absmax_bytes=absmax_bytes(quantized, quantize),
        dequantized_bytes=s.element_bytes * linear if quantized else 0,
        built_bytes=s.element_bytes * (quantized - spared) + FP32 * (total - quantized + spared),
    )
