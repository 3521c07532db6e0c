"""What the formulas of each stage return: the parts on one GPU at each moment, activations not included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeroconf.types import MemoryParts


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward:
    """A moment of backward: when gradients of a share ``computed`` of the model are, so that its activations are gone.

    ``working`` says that a block is at work, with checkpointing computed again, else that gradients are reduced.
    """

    parts: MemoryParts
    computed: float
    working: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMoments:
    """The parts at each moment.

    ``forward`` is before the logits, in a later micro step where gradients accumulate. Backward is given twice: at its
    start, with the logits and all activations alive, and where gradients weigh most; ``computed`` is the share of the
    model whose gradients are computed by then, so that its activations are gone. ``backward_others`` are more of it.
    """

    init: MemoryParts
    steady: MemoryParts
    forward: MemoryParts
    backward_start: MemoryParts
    backward_end: MemoryParts
    computed: float = 1.0
    step: MemoryParts
    backward_others: tuple[Backward, ...] = ()
