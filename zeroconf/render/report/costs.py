"""What one plan costs, as the report's page draws it: memory, traffic, time.

A figure is a pair: its value for drawing (GiB in memory, GB sent, or seconds), and its text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from zeroconf.render.text import speed_words, step_parts
from zeroconf.types import MemoryParts
from zeroconf.units import GIB, counted, gib, gigabytes, seconds

if TYPE_CHECKING:
    from zeroconf.types import Collective, Estimate, Facts

Json = dict[str, Any]
Figure = tuple[float, str]
PARTS: Final = tuple(MemoryParts.__dataclass_fields__)
# of a step's bytes: less is norms and flags
_NAMED_SHARE: Final = 1000
_BEYOND: Final = 10


class Shared:
    """Values that stand once."""

    def __init__(self) -> None:
        """Without any."""
        self.values: list[object] = []
        self._indices: dict[str, int] = {}

    def index(self, value: object) -> int:
        """Where the value stands from now on."""
        index = self._indices.setdefault(json.dumps(value), len(self.values))
        if index == len(self.values):
            self.values.append(value)
        return index


def memory_json(cost: Estimate) -> Json:
    """The peak by part, the moments, and what the host, the NVMe and a checkpoint take."""
    gpu = cost.gpu
    return {
        "peak": size(gpu.peak_allocated_bytes),
        "low": size(gpu.low_bytes),
        "high": size(gpu.high_bytes),
        "reserved": size(gpu.peak_reserved_bytes),
        "textbook": size(gpu.textbook_bytes),
        "moment": gpu.peak_moment,
        "parts": [size(getattr(gpu.peak, part)) for part in PARTS],
        "moments": [size(parts.total) for parts in gpu.moments.values()],
        "share": _share(gpu.peak_allocated_bytes / cost.capacity_bytes),
        "host": size(cost.host.peak_bytes),
        "nvme": size(cost.nvme_bytes),
        "checkpoint": size(cost.checkpoint_bytes),
    }


def _share(share: float) -> str:
    """``76%``; ``12x`` of what is beyond all measure."""
    return f"{share:.0%}" if share < _BEYOND else f"{share:.0f}x"


def traffic_json(cost: Estimate, shared: Shared) -> Json:
    """What a GPU sends per step, and what offload moves."""
    total = cost.traffic.bytes_per_gpu_per_step
    named = [one for one in cost.traffic.per_collective if _NAMED_SHARE * one.bytes >= total]
    return {
        "total": _sent(total),
        "sent": [shared.index(_collective(one)) for one in named],
        "moved": [shared.index((one.route, one.purpose, gigabytes(one.bytes))) for one in cost.traffic.transfers],
    }


def kind_of(one: Collective) -> str:
    """``gradients`` of ``gradients, once per step``; groups of any size are one kind."""
    return one.purpose.partition(",")[0].partition(" of ")[0]


def _collective(one: Collective) -> Json:
    return {
        "what": f"{one.collective} ({one.purpose})",
        "of": kind_of(one),
        "link": one.link,
        "bytes": _sent(one.bytes),
        "seconds": seconds(one.seconds),
        "count": counted(one.count, "call"),
    }


def time_json(cost: Estimate, facts: Facts) -> Json:
    """A step with its range and parts, a sample, and the throughput."""
    step = cost.step
    each, per_gpu, of_all = speed_words(cost, facts).partition(" per GPU")
    return {
        "step": _duration(step.total_seconds),
        "low": _duration(step.low_seconds),
        "high": _duration(step.high_seconds),
        "sample": _duration(step.seconds_per_sample),
        "speed": (each, f"{per_gpu}{of_all}".strip()),
        "parts": [_duration(value) for value in step_parts(step).values()],
    }


def size(num_bytes: int) -> Figure:
    """Bytes of memory."""
    return round(num_bytes / GIB, 2), gib(num_bytes)


def _sent(num_bytes: int) -> Figure:
    return float(f"{num_bytes / 1e9:.4g}"), gigabytes(num_bytes)


def _duration(value: float) -> Figure:
    return float(f"{value:.4g}"), seconds(value)
