"""Calls of one kind in an optimizer step, and those of ZeRO++'s quantized gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zeroconf.estimate.optimizers import MASTER_BYTES
from zeroconf.estimate.reductions import Gradients, Sent, scattered_buckets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.estimate.sizes import Sizes
    from zeroconf.types import CollectiveKind, ModelSpec

_PACKED_BYTES: Final = 1  # two 4-bit integers


@dataclass(frozen=True, slots=True)
class Pass:
    """Calls of one kind: whole tensors, bytes of an element, and the group where it is not all ranks.

    ``between`` nodes, or inside one; so many ``rings`` of the same kind share the link at the same time.
    """

    kind: CollectiveKind
    purpose: str
    sent: Sent
    element_bytes: int
    group: int | None = None
    between: bool = False
    rings: int = 1


def each(steps: int) -> str:
    """How often: ``in each of 4 micro steps``."""
    return "once per step" if steps == 1 else f"in each of {steps} micro steps"


def quantized_gradients(
    found: Gradients, width: int, model: ModelSpec, s: Sizes, num_nodes: int, steps: int
) -> Iterator[Pass]:
    """ZeRO++'s gradients (coalesced_collectives.py: all_to_all_quant_reduce): read there, since they need CUDA.

    Each matrix goes as 4-bit integers inside its node, then a GPU's part of it between the nodes, both times with
    its groups' scales; what is one row, or no multiple of two elements for each rank, is reduce-scattered alone.
    """
    local = s.world_size // num_nodes
    row = max(model.vocab_size, model.intermediate_size, model.query_size + 2 * model.key_value_size)
    matrices = [size for size in found.sizes if size > row and size % (2 * s.world_size) == 0]
    others = Gradients(tuple(size for size in found.sizes if size <= row or size % (2 * s.world_size)), ())
    purpose = f"quantized gradients {{}}, {each(steps)}"
    for where, parts, ranks in (("inside nodes", 1, local), ("between nodes", local, num_nodes)):
        if ranks == 1:
            continue
        packed = Sent(sum(matrices) // parts // 2, len(matrices)).times(steps)
        scales = Sent(sum(size // model.hidden_size for size in matrices) // parts, len(matrices)).times(steps)
        for sent, element_bytes in ((packed, _PACKED_BYTES), (scales, MASTER_BYTES)):
            yield Pass(
                "all-to-all", purpose.format(where), sent, element_bytes, ranks, between=where == "between nodes"
            )
    alone = scattered_buckets(others, 0, s.world_size)
    yield Pass("reduce-scatter", f"gradients, {each(steps)}", alone.times(steps), width)
