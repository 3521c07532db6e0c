"""Bytes that one rank puts on its links for a collective, by backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from zeroconf.types import Collective, CollectiveKind, Traffic

Backend = Literal["nccl", "gloo"]


def sent_share(kind: CollectiveKind, ranks: int, backend: Backend = "nccl") -> float:
    """Elements that one of ``ranks`` sends per element of the whole tensor, averaged over the ranks.

    NCCL's rings (nccl-tests, PERFORMANCE.md): an all-reduce 2 (N-1)/N, the others (N-1)/N; a reduce's owner sends
    nothing. Gloo as PyTorch 2.13 calls it (counted in benchmarks/gloo_bytes.py): a reduce-scatter is an all-reduce, and
    a reduce is a ring's reduce-scatter whose parts then go to the owner. For 8 ranks: 1.75 and 0.875; gloo's reduce
    0.984.
    """
    once = (ranks - 1) / ranks
    if kind == "all-reduce" or (kind == "reduce-scatter" and backend == "gloo"):
        return 2 * once
    if kind == "reduce" and backend == "gloo":
        return once * (1 + 1 / ranks)
    return once


def bytes_on_wire(collective: Collective, backend: Backend) -> int:
    """What one rank sends in a step for this collective, without headers of the network's protocols."""
    share = sent_share(collective.collective, collective.group_size, backend)
    return round(collective.payload_elements * share) * collective.element_bytes


def traffic_bytes(traffic: Traffic, backend: Backend) -> int:
    """All that one rank sends in a step."""
    return sum(bytes_on_wire(collective, backend) for collective in traffic.per_collective)
