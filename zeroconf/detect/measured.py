"""What an all-reduce between the ranks measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Bytes per second by the definition of nccl-tests' busbw, and the latency of one hop of a ring.

    ``is_first`` is false in the processes of other ranks than 0, which have nothing to report.
    """

    bytes_per_second: float
    latency_seconds: float
    num_ranks: int
    num_nodes: int
    backend: str
    num_bytes: int
    is_first: bool = True

    @property
    def source(self) -> str:
        """How it was measured, in words."""
        where = f"on {self.num_nodes} nodes" if self.num_nodes > 1 else "on one machine"
        size = f"{self.num_bytes / 2**20:g} MiB"
        return f"measured: {self.backend} all-reduce of {size} between {self.num_ranks} ranks {where} (busbw)"
