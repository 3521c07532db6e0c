"""A model's matrices in the order in which its class registers them, and how stage 3 packs them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.estimate.modules import LINEAR, layout_of, leaf_names, matrix, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zeroconf.types import ModelSpec


class Matrix(NamedTuple):
    """One parameter of two dimensions; a block's experts are one, of ``matrices``."""

    rows: int
    columns: int
    matrices: int = 1

    @property
    def elements(self) -> int:
        """Its size."""
        return self.rows * self.columns * self.matrices


@lru_cache
def block_matrices(model: ModelSpec) -> tuple[Matrix, ...]:
    """One block's matrices in the order of its layout: queries, keys and values apart or in one, output, the MLP's.

    A mixture (models/mixtral/modeling_mixtral.py) has its router and all experts' gates and up projections in one
    parameter. Llama-3-8B: 4096 x 4096, twice 1024 x 4096, 4096 x 4096, thrice 14336 x 4096; MPT-7B: 12288 x 4096,
    4096 x 4096, twice 16384 x 4096.
    """
    names = leaf_names(words(layout_of(model).block))
    linear = [Matrix(*matrix(model, name)) for name in names if name in LINEAR]
    if not model.num_experts:
        return tuple(linear)
    size, inner = model.hidden_size, model.intermediate_size
    experts = Matrix((2 if model.gated_mlp else 1) * inner, size, model.num_experts)
    return (*linear, Matrix(model.num_experts, size), experts, Matrix(inner, size, model.num_experts))


def model_tensors(model: ModelSpec) -> list[int]:
    """Elements of the model's matrices in order: vocabulary, blocks, output."""
    block = [matrix.elements for matrix in block_matrices(model)]
    ends = 1 if model.tied_embeddings else 2
    return [model.embedding_parameters, *block * model.num_layers, *[model.embedding_parameters] * (ends - 1)]


def sub_groups(shards: Iterable[int], sub_group_size: int) -> list[int]:
    """Elements of each of stage 3's sub-groups on one rank: the tensor that fills one closes it.

    zero/stage3.py: _create_fp16_sub_groups. Shares of 4, 4, 4 with a size of 6: 8, 4.
    """
    groups = [0]
    for shard in shards:
        if groups[-1] >= sub_group_size:
            groups.append(0)
        groups[-1] += shard
    return groups


def touched_elements(tensors: Iterable[int], shard: int) -> int:
    """Elements of the whole tensors that overlap the first share of a flat group. 4, 4, 4 and a share of 6: 8."""
    touched = 0
    for tensor in tensors:
        if touched >= shard:
            break
        touched += tensor
    return touched


class Buckets(NamedTuple):
    """Elements: ``filled`` of the fullest bucket, ``reduced`` when it is, ``first`` and ``last`` of those two.

    ``waiting`` is the most that waits when a gradient beyond the bucket passes it by.
    """

    filled: int
    reduced: int
    first: int
    last: int
    waiting: int


def buckets(gradients: Sequence[int], limit: int) -> Buckets:
    """What goes into the buckets, one gradient after the other.

    One that would not go in has the bucket reduced first (zero/stage3.py:
    reduce_independent_p_g_buckets_and_remove_grads; zero/stage_1_and_2.py alike). The last gradient, the first
    layer's, comes when all else is gone. 3, 4, 4, 4, 12, 4 into 10: 7, then 8, which
    wait when 12 come.
    """
    reductions = [(0, 0)]
    waiting = filled = reduced = 0
    for position, gradient in enumerate(gradients, 1):
        if filled and filled + gradient > limit:
            reductions.append((filled, reduced))
            waiting = max(waiting, filled) if gradient > limit and position < len(gradients) else waiting
            filled = 0
        filled += gradient if gradient <= limit else 0
        reduced += gradient
    reductions.append((filled, reduced))
    fullest, when = max(reductions, key=lambda one: (one[0], -one[1]))
    return Buckets(filled=fullest, reduced=when, first=reductions[1][0], last=filled, waiting=waiting)


def last_reduction(gradients: Sequence[int], limit: int, live: int) -> tuple[int, int]:
    """What is gathered beside the first vocabulary matrix, and in the bucket that is reduced then, when both are most.

    The prefetcher takes that matrix, the last, once all that is before it is less than the live limit. Gradients are
    those of the blocks, the last block's first. 4, 4, 4 into 10 with a limit of 6: 4 are left when 8 are reduced.
    """
    most, left, filled = (0, 0), sum(gradients), 0
    for gradient in gradients:
        if filled and filled + gradient > limit:
            most = max(most, (left, filled), key=sum) if left < live else most
            filled = 0
        filled += gradient if gradient <= limit else 0
        left -= gradient
    return max(most, (0, filled), key=sum)
