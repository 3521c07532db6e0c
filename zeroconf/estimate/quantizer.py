"""The quantizer of gathered weights: the groups that it makes, and what it refuses.

DeepSpeed 0.19.8, zero/partition_parameters.py: CUDAQuantizer.quantize. It needs CUDA to run; what it asks of sizes does
not.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.estimate.modules import ADAPTED, layout_of, matrix, words
from zeroconf.estimate.trace import FETCH, trace
from zeroconf.estimate.tree import Shape, adds_up
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.estimate.modules import Word
    from zeroconf.types import ModelSpec

UNIT: Final = 8
_GROUP_ELEMENTS: Final = 8000
_SHALLOW: Final = 2  # blocks: all are alike


def quantization_groups(elements: int) -> int:
    """Groups that share a scale in what a rank gives to one gather: as few as go, of at most 8000 elements in eights.

    DeepSpeed counts them up from elements / 8000 to the first that divides the eights. What is no multiple of 8 it
    refuses: of sizes that are not known exactly groups of 8000 are counted. 65,536 elements: 16 groups.
    """
    eights, rest = divmod(elements, UNIT)
    if rest or not eights:
        return ceil_div(elements, _GROUP_ELEMENTS)
    return eights // next(size for size in range(min(eights, _GROUP_ELEMENTS // UNIT), 0, -1) if eights % size == 0)


class Refused(NamedTuple):
    """Elements of a module's parameters, and of a rank's part of them, which the quantizer refuses."""

    elements: int
    part: int
    num_ranks: int

    def __str__(self) -> str:
        """``24 ranks have 699,051 elements each of a module's 16,777,216, no multiple of 8, which ... wants``."""
        return (
            f"{self.num_ranks} ranks have {self.part:,} elements each of a module's {self.elements:,}, no multiple of"
            f" {UNIT}, which DeepSpeed's quantizer wants"
        )


@lru_cache
def refused(model: ModelSpec, num_ranks: int) -> Refused | None:
    """The first module whose parameters the quantizer refuses in the first forward, where each is gathered by itself.

    "Qantized weight requires the number of weights be a multiple of 8": each part is a parameter's elements by the
    ranks, rounded up, and those of a module go together. One GPU gathers nothing.
    """
    if num_ranks == 1:
        return None
    for sizes in _gathered_alone(model):
        part = sum(ceil_div(size, num_ranks) for size in sizes)
        if part % UNIT:
            return Refused(sum(sizes), part, num_ranks)
    return None


def _gathered_alone(model: ModelSpec) -> Iterator[tuple[int, ...]]:
    """Sizes of each module's own parameters, as far as they are known.

    A layout whose modules do not add up to the model is sure of linear layers without biases at most, and of none
    beside experts.
    """
    if adds_up(model):
        found = trace(Shape(model, min(model.num_layers, _SHALLOW)))
        for kind, parameters in found.events:
            if kind == FETCH and parameters:
                yield tuple(found.parameters[one].elements for one in parameters)
    elif not model.num_experts:
        for name in _alone(words(layout_of(model).block)):
            rows, columns = matrix(model, name)
            yield (rows * columns,)


def _alone(block: tuple[Word, ...]) -> Iterator[str]:
    """The linear layers that a block has without biases."""
    for word in block:
        if word.name in ADAPTED and not word.biased:
            yield word.name
        yield from _alone(word.children)
