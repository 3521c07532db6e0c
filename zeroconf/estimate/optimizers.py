"""What an optimizer's ``step`` keeps and needs for each fp32 element that it updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from zeroconf.types import OptimizerVariant

MASTER_BYTES: Final = 4
# bitsandbytes 0.50.2, optim/optimizer.py: Optimizer2State and Optimizer1State (init_state, min_8bit_size)
BLOCK_ELEMENTS: Final = 256
SMALLEST_BLOCKWISE: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerMemory:
    """Bytes per element: ``state_bytes`` stay, ``temporary_bytes`` live during the step.

    ``whole`` says that the temporaries of all tensors live together (PyTorch's ``foreach``, the default on a
    GPU), else only one tensor's. ``fused_adam`` optimizers get stage 0's flat 16-bit wrapper, all others the
    unfused one (engine.py: _configure_fp16_optimizer). ``factored`` states are a row and a column of a matrix,
    almost nothing, where the optimizer sees matrices: at stage 0. ``blockwise`` states are of one byte each, and have
    an fp32 maximum (absmax) for each block of 256 elements.
    """

    state_bytes: int
    temporary_bytes: int = 0
    whole: bool = True
    fused_adam: bool = False
    factored: bool = False
    blockwise: bool = False

    def states_bytes(self, elements: int) -> int:
        """Bytes of the optimizer's own tensors for so many elements in one tensor, as ZeRO's flat shards are.

        A tensor of fewer than 4096 elements keeps fp32 states. 8-bit Adam of 1e6 elements: 2e6 + 2 x 4 x 3907.
        """
        if not self.blockwise:
            return self.state_bytes * elements
        if elements < SMALLEST_BLOCKWISE:
            return MASTER_BYTES * self.state_bytes * elements
        return self.state_bytes * (elements + MASTER_BYTES * ceil_div(elements, BLOCK_ELEMENTS))


# counted in DeepSpeed 0.19.8 and PyTorch 2.13 (torch/optim/adamw.py: _multi_tensor_adamw, _single_tensor_adamw;
# _adafactor.py), on the flat shards that ZeRO hands over: Adafactor finds no matrix to factor there
_MEMORY: Final[dict[OptimizerVariant, OptimizerMemory]] = {
    "adamw": OptimizerMemory(state_bytes=8, fused_adam=True),
    "adam": OptimizerMemory(state_bytes=8, fused_adam=True),
    "lion": OptimizerMemory(state_bytes=4),
    "sgd": OptimizerMemory(state_bytes=0),
    "sgd-momentum": OptimizerMemory(state_bytes=4),
    "torch-adamw": OptimizerMemory(state_bytes=8, temporary_bytes=4),
    "torch-adamw-loop": OptimizerMemory(state_bytes=8, temporary_bytes=8, whole=False),
    "torch-adamw-fused": OptimizerMemory(state_bytes=8),
    "adafactor": OptimizerMemory(state_bytes=4, temporary_bytes=8, whole=False, factored=True),
    "adamw-8bit": OptimizerMemory(state_bytes=2, blockwise=True),
    "lion-8bit": OptimizerMemory(state_bytes=1, blockwise=True),
    # of hidden matrices; see Muon in sizes.py
    "muon": OptimizerMemory(state_bytes=4),
}


def optimizer_memory(variant: OptimizerVariant) -> OptimizerMemory:
    """The row of one optimizer."""
    return _MEMORY[variant]
