"""What the formulas of each stage return: the parts on one GPU at each moment, activations not included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeroconf.types import MemoryParts


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMoments:
    """The parts at each moment.

    ``forward`` is a later micro step's where gradients accumulate. Backward is given twice: at its start, when
    all activations are alive, and where gradients weigh most; ``computed`` is the share of the model whose
    gradients are computed by then, so that its activations are gone.
    """

    init: MemoryParts
    steady: MemoryParts
    forward: MemoryParts
    backward_start: MemoryParts
    backward_end: MemoryParts
    computed: float = 1.0
    step: MemoryParts
