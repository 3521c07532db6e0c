"""What stands for DeepSpeed's compiled operators: optimizers, quantizers, asynchronous I/O. They compute nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from zeroconf.smoke.worker.ledger import DEVICE, Ledger
else:
    from ledger import DEVICE


class Kernel:
    """Stands for a compiled operator's module: updates in place that need no memory beside their arguments.

    Those that return something are written out.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_arguments, **_named: None

    def quantize(self, values: torch.Tensor, groups: int, bits: int, *_: Any) -> list[torch.Tensor]:
        """Values of 8 or 4 bits in bytes, and a scale in fp32 for each group (csrc/quantization/pt_binding.cpp)."""
        return [_bytes(*values.shape[:-1], values.shape[-1] * bits // 8), _scales(groups)]

    def dequantize(self, values: torch.Tensor, _scales: Any, _groups: int, bits: int, *_: Any) -> torch.Tensor:
        """The values in fp16."""
        return torch.empty(*values.shape[:-1], values.shape[-1] * 8 // bits, dtype=torch.half, device=DEVICE)

    def swizzle_quant(self, values: torch.Tensor, groups: int, bits: int, *_: Any) -> list[torch.Tensor]:
        """As ``quantize``, in the order that the ranks of nodes will need, and flat."""
        return [_bytes(values.numel() * bits // 8), _scales(groups)]

    def quantized_reduction(
        self, values: torch.Tensor, _given: Any, _groups: int, groups: int, _bits: int, _kind: Any, num_ranks: int
    ) -> list[torch.Tensor]:
        """The sum of what the ranks of a node sent, quantized again."""
        return [_bytes(*values.shape[:-1], values.shape[-1] // num_ranks), _scales(groups)]

    def aio_handle(self, *_arguments: Any, **_named: Any) -> Disk:
        """DeepSpeed's asynchronous I/O (csrc/aio)."""
        return Disk(self._ledger)


def _bytes(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, dtype=torch.int8, device=DEVICE)


def _scales(groups: int) -> torch.Tensor:
    return torch.empty(groups, 1, dtype=torch.float, device=DEVICE)


class Disk:
    """Reads and writes nothing, and says that it did."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._pending = 0

    def async_pread(self, *_arguments: Any) -> int:
        """Takes a request."""
        self._pending += 1
        return 0

    async_pwrite = async_pread

    def wait(self) -> int:
        """The number of requests done."""
        done, self._pending = self._pending, 0
        return done

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is in locked memory."""
        return bool(tensor.is_pinned())

    def new_cpu_locked_tensor(self, num_elements: int, example: torch.Tensor) -> torch.Tensor:
        """A tensor in locked memory (mlock: no rounding)."""
        tensor = torch.empty(num_elements, dtype=example.dtype)
        self._ledger.lock(tensor)
        return tensor

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_arguments, **_named: 0
