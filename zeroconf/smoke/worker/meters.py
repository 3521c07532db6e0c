"""Meters of device memory. Each says how many bytes live now and how many lived at most since a phase started.

On the CPU, device and host are one memory: what offload would keep in the host's is counted too.
"""

from __future__ import annotations

import contextlib
import ctypes
import resource
import sys
from abc import abstractmethod
from pathlib import Path
from typing import Any


class Meter(contextlib.AbstractContextManager["Meter"]):
    """What the phases are measured with, entered around all of them. ``name`` goes into the result's environment."""

    name: str

    def __exit__(self, *_error: object) -> None:
        """Most meters need no context."""

    @abstractmethod
    def live(self) -> int:
        """Bytes allocated now."""

    @abstractmethod
    def peak(self) -> int:
        """Most bytes allocated since the phase started."""

    def reserved(self) -> int:
        """Most bytes that the allocator held since then; the same where it caches nothing."""
        return self.peak()

    def parts(self) -> dict[str, int] | None:
        """Bytes by part at that peak, where they are known."""
        return None

    def host(self) -> dict[str, int]:
        """Bytes of host memory: ``peak_bytes``, and where they are known ``pinned_bytes``, ``pageable_bytes``."""
        return {"peak_bytes": host_peak_bytes()}

    @abstractmethod
    def start(self, phase: str) -> None:
        """Starts a phase, and a new peak."""

    def watch(self, model: Any) -> None:
        """Told of the model when it is built."""

    def settle(self, engine: Any) -> None:
        """Told of the engine when it is initialised, and after each optimizer step."""


class CudaMeter(Meter):
    """PyTorch's own counters of one GPU."""

    name = "torch.cuda"

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda

    def live(self) -> int:
        """Bytes in live blocks, in the allocator's rounding."""
        return int(self._cuda.memory_allocated())

    def peak(self) -> int:
        """``torch.cuda.max_memory_allocated()``."""
        return int(self._cuda.max_memory_allocated())

    def reserved(self) -> int:
        """``torch.cuda.max_memory_reserved()``."""
        return int(self._cuda.max_memory_reserved())

    def start(self, phase: str) -> None:  # noqa: ARG002  (the same in every phase)
        """Starts new peaks of allocated and reserved bytes."""
        self._cuda.reset_peak_memory_stats()


class CountingMeter(Meter):
    """Requested bytes of torch's CPU allocator, counted from its construction on (counter.cpp)."""

    name = "counting allocator"

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        for function in (self._library.zeroconf_counter_live, self._library.zeroconf_counter_peak):
            function.restype = ctypes.c_int64
        self._library.zeroconf_counter_install()

    def live(self) -> int:
        """Bytes in live blocks."""
        return int(self._library.zeroconf_counter_live())

    def peak(self) -> int:
        """Most bytes in live blocks since the last reset."""
        return int(self._library.zeroconf_counter_peak())

    def start(self, phase: str) -> None:  # noqa: ARG002
        """Starts a new peak."""
        self._library.zeroconf_counter_reset()


class ResidentMeter(Meter):
    """Growth of the resident set since construction: coarse, for machines without a compiler.

    Counts touched pages, freed ones that the C library keeps included. Where Linux cannot reset the peak
    (``/proc/self/clear_refs``), it only grows.
    """

    name = "resident set"

    def __init__(self) -> None:
        self._start = _resident_bytes("VmRSS")

    def live(self) -> int:
        """Resident bytes beyond the start."""
        return max(0, _resident_bytes("VmRSS") - self._start)

    def peak(self) -> int:
        """Most resident bytes beyond the start."""
        return max(0, _resident_bytes("VmHWM") - self._start)

    def start(self, phase: str) -> None:  # noqa: ARG002
        """Resets the kernel's high-water mark (proc(5): writing 5 to clear_refs)."""
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            return


def _resident_bytes(field: str) -> int:
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return host_peak_bytes()


def host_peak_bytes() -> int:
    """The process's largest resident set so far, in bytes (getrusage counts KiB on Linux, bytes on macOS)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def open_meter(torch: Any, device: str, counter: str | None) -> Meter:
    """The best meter there is for ``device``."""
    if device == "cuda":
        return CudaMeter(torch)
    if counter is not None:
        meter = CountingMeter(counter)
        if torch.empty(1024) is not None and meter.peak() > 0:
            return meter
    return ResidentMeter()
