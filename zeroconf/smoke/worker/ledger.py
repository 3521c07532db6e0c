"""Counts the storages of fake tensors: what lives on the device and on the host, at most, and as which part.

Nothing is allocated. PyTorch's FakeTensorMode gives every tensor a shape, a device and a storage without bytes; the
ledger stands above it, books each new storage when the operation that made it returns, and writes it off when PyTorch
frees it. The device is ``cpu:0`` and the host is ``cpu`` without an index: two devices to a fake tensor, which may
not be mixed, but one kind of device to PyTorch, so that each operator has a kernel on any build of it.

Runs by path in the training environment, as all of this folder.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

    from zeroconf.smoke.worker.gpu_kernels import WORKSPACES
else:
    from gpu_kernels import WORKSPACES

DEVICE = "cpu:0"
_READ = torch.ops.aten._local_scalar_dense.default  # noqa: SLF001  (operators of PyTorch's own, as the next one)
_PIN = torch.ops.aten._pin_memory.default  # noqa: SLF001
_IS_PINNED = torch.ops.aten.is_pinned.default
_COPY = torch.ops.aten.clone.default


@dataclass(slots=True)
class _Entry:
    """One storage: ``size`` in bytes, ``requested`` before rounding; ``number`` counts bookings."""

    pool: Pool
    size: int
    requested: int
    part: str
    number: int


@dataclass(slots=True)
class Pool:
    """One memory: bytes by part now, and when they were most since the last reset."""

    parts: Counter[str] = field(default_factory=Counter)
    live: int = 0
    peak: int = 0
    parts_at_peak: dict[str, int] = field(default_factory=dict)
    booked_at_peak: int = 0

    def add(self, entry: _Entry) -> None:
        """Books an entry."""
        self.parts[entry.part] += entry.size
        self.live += entry.size
        if self.live >= self.peak:
            self.mark(entry.number)

    def need(self, size: int, number: int) -> None:
        """Takes note of bytes that are freed at once."""
        if self.live + size > self.peak:
            self.mark(number)
            self.peak += size
            self.parts_at_peak["temporaries"] = self.parts_at_peak.get("temporaries", 0) + size

    def mark(self, number: int) -> None:
        """Makes what lives now the peak."""
        self.peak, self.parts_at_peak, self.booked_at_peak = self.live, dict(self.parts), number

    def remove(self, entry: _Entry) -> None:
        """Writes an entry off."""
        self.parts[entry.part] -= entry.size
        self.live -= entry.size

    def move(self, entry: _Entry, part: str) -> None:
        """Makes an entry another part, also at the peak if it was booked by then: it lives, so it lived there."""
        self.parts[entry.part] -= entry.size
        self.parts[part] += entry.size
        if entry.number <= self.booked_at_peak:
            self.parts_at_peak[entry.part] -= entry.size
            self.parts_at_peak[part] = self.parts_at_peak.get(part, 0) + entry.size
        entry.part = part


@dataclass(slots=True)
class Total:
    """Bytes now, and the most since the last reset."""

    live: int = 0
    peak: int = 0

    def add(self, size: int) -> None:
        """Books bytes."""
        self.live += size
        self.peak = max(self.peak, self.live)


class Ledger(TorchDispatchMode):  # type: ignore[misc]
    """The books, and the mode that keeps them: ``device``, ``pageable`` and ``pinned`` memory.

    ``host_peak`` are the most bytes of both kinds of host memory at any time, ``requested`` all three together as they
    were asked for: what one allocator for device and host would count. Values that a program reads from the
    device (``item()``) are zero: no overflow, a norm of 0, a loss of 0.
    """

    def __init__(self, classify: Callable[[torch.Tensor, FrameType], str]) -> None:
        super().__init__()
        self._fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._classify = classify
        self.device, self.pageable, self.pinned = Pool(), Pool(), Pool()
        self._entries: dict[int, _Entry] = {}
        self._bookings = 0
        self.host_peak = 0
        self.requested = Total()

    def __enter__(self) -> Any:
        self._fake_mode.__enter__()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._fake_mode.__exit__(*error)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs one operation on fake tensors and books what it made."""
        kwargs = dict(kwargs or {})
        if function is _READ:
            return _read(function, args[0])
        if function is _IS_PINNED:
            entry = self._entries.get(_key(args[0]))
            return entry is not None and entry.pool is self.pinned
        pinned = bool(kwargs.pop("pin_memory", False))
        if function is _PIN:
            function, args, pinned = _COPY, args[:1], True
        result = function(*args, **kwargs)
        for tensor in tree_iter(result):
            if isinstance(tensor, FakeTensor) and tensor.fake_device.type != "meta":
                if tensor.constant is not None:
                    _keep_device(tensor, args, kwargs)
                self._book(tensor, pinned=pinned)
        if workspace := WORKSPACES.get(function):
            self.device.need(workspace(*args), self._bookings)
        return result

    def _book(self, tensor: FakeTensor, *, pinned: bool) -> None:
        storage = tensor.untyped_storage()
        key = _key(tensor)
        if key in self._entries:
            return
        self._bookings += 1
        size = storage.nbytes()
        if tensor.fake_device.index is not None:
            part = self._classify(tensor, sys._getframe(2))  # noqa: SLF001  (the caller of the operation)
            entry = _Entry(self.device, size, size, part, self._bookings)
        elif pinned:
            # CachingHostAllocator.h: each block is rounded up to a power of two
            rounded = 1 << max(0, size - 1).bit_length()
            entry = _Entry(self.pinned, rounded, size, "pinned", self._bookings)
        else:
            entry = _Entry(self.pageable, size, size, "pageable", self._bookings)
        entry.pool.add(entry)
        self.requested.add(size)
        self._entries[key] = entry
        self.host_peak = max(self.host_peak, self.pinned.live + self.pageable.live)
        weakref.finalize(storage, self._write_off, key)

    def _write_off(self, key: int) -> None:
        entry = self._entries.pop(key)
        entry.pool.remove(entry)
        self.requested.live -= entry.requested

    def label(self, tensors: Iterable[tuple[torch.Tensor, str]], *, rest: str | None = None) -> None:
        """Says which part living tensors are, also at the last peak; the first word on a storage counts.

        ``rest`` is what all other storages of the device are.
        """
        said = set()
        for tensor, part in tensors:
            key = _key(tensor)
            entry = self._entries.get(key)
            if entry is None or key in said:
                continue
            said.add(key)
            if entry.pool is self.device:
                self.device.move(entry, part)
        if rest is not None:
            for key, entry in self._entries.items():
                if entry.pool is self.device and key not in said:
                    self.device.move(entry, rest)

    def lock(self, tensor: torch.Tensor) -> None:
        """Moves a host tensor to the pinned ones, at its own size."""
        entry = self._entries[_key(tensor)]
        entry.pool.remove(entry)
        entry.pool = self.pinned
        entry.pool.add(entry)

    def start_peak(self) -> None:
        """Starts a new peak of the device, and of all together."""
        self.device.mark(self._bookings)
        self.requested.peak = self.requested.live


def _key(tensor: torch.Tensor) -> int:
    """What tells storages apart, as long as they live."""
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001  (it has no public name)


def _keep_device(tensor: FakeTensor, args: Any, kwargs: dict[str, Any]) -> None:
    """The device of a result whose value is known: PyTorch computed it on the host."""
    wanted = kwargs.get("device")
    given = [one.fake_device for one in tree_iter(args) if isinstance(one, FakeTensor)] if wanted is None else [wanted]
    tensor.fake_device = next((device for device in given if device.index is not None), tensor.fake_device)


def _read(function: Any, tensor: torch.Tensor) -> Any:
    """A tensor's value as a Python number, zero where it has none."""
    try:
        return function(tensor)
    except DataDependentOutputException:
        return False if tensor.dtype is torch.bool else 0.0 if tensor.dtype.is_floating_point else 0
