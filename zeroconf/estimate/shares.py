"""What tensor parallelism leaves of a model on one rank."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from zeroconf.types import ModelSpec


@lru_cache(maxsize=8)
def tensor_share(model: ModelSpec, size: int) -> ModelSpec:
    """The model on one of ``size`` tensor parallel ranks, as a model of its own.

    DeepSpeed's AutoTP splits the linear layers of the blocks by heads and by the MLP's width, and the output matrix;
    normalisations stay whole, and so does the input's vocabulary matrix unless the output's is tied to it
    (module_inject/auto_tp.py, module_inject/layers.py: VocabParallelEmbedding of a tied matrix). Hidden states are
    whole on each rank. Pythia-1.4B on two ranks: (1.415e9 - 103e6) / 2 + 103e6 = 0.759e9.
    """
    if size == 1:
        return model
    whole = (2 * model.num_layers + 1) * model.hidden_size
    if not model.tied_embeddings:
        whole += model.embedding_parameters
    return replace(
        model,
        num_parameters=_split(model.num_parameters, whole, size),
        num_active_parameters=_split(model.num_active_parameters, whole, size),
        num_attention_heads=ceil_div(model.num_attention_heads, size),
        num_key_value_heads=ceil_div(model.num_key_value_heads, size),
        intermediate_size=ceil_div(model.intermediate_size, size),
        shared_intermediate_size=ceil_div(model.shared_intermediate_size, size),
        dense_intermediate_size=ceil_div(model.dense_intermediate_size, size),
        vocab_size=ceil_div(model.vocab_size, size) if model.tied_embeddings else model.vocab_size,
    )


def _split(parameters: int, whole: int, size: int) -> int:
    return whole + ceil_div(max(0, parameters - whole), size)
