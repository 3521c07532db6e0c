"""What a plan needs of the GPU, of its node's host memory and of its NVMe, against what there is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.units import gib

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zeroconf.types import Candidate, Cluster, Estimate, Facts, NodeLimit

# rounding of pinned blocks is named from this share of the host memory on
_LARGE_SHARE: Final = 0.1
PARAMETER_STAGE: Final = 3


class Need(NamedTuple):
    """Bytes that a plan needs of one limit, and that there are; the GPU's without the predicted error."""

    limit: NodeLimit
    needed_bytes: int
    available_bytes: int

    @property
    def share(self) -> float:
        """What it is of what there is: above 1 is too much."""
        return self.needed_bytes / self.available_bytes if self.needed_bytes else 0.0


def needs(cost: Estimate, cluster: Cluster) -> tuple[Need, ...]:
    """The GPU's, the host memory's and the NVMe's; a plan that uses no NVMe needs nothing of it."""
    capacity = cluster.nvme.capacity_bytes if cluster.nvme else 0
    disk = (Need("nvme", cost.nvme_bytes, capacity),) if capacity else ()
    return (
        Need("gpu_memory", cost.gpu.peak_allocated_bytes, cost.capacity_bytes),
        Need("host_memory", cost.host.peak_bytes, cluster.host_limit_bytes),
        *disk,
    )


def broken(cost: Estimate, cluster: Cluster) -> tuple[Need, ...]:
    """The limits that a plan breaks, the GPU's first."""
    gpu, *node = needs(cost, cluster)
    card = (gpu,) if cost.verdict == "does-not-fit" else ()
    return (*card, *(need for need in node if need.share > 1))


def nearness(cost: Estimate, cluster: Cluster) -> tuple[int, float]:
    """Smaller is nearer to fitting: fewer limits broken, then by how much, one times the other."""
    exceeded = broken(cost, cluster)
    return len(exceeded), math.prod(need.share for need in exceeded)


def nearest(candidates: Iterable[Candidate], facts: Facts) -> Candidate:
    """The candidate that is nearest to fitting; of equal ones the first."""
    return min(candidates, key=lambda candidate: nearness(candidate.estimate, facts.cluster))


def peak_words(cost: Estimate) -> str:
    """The peak against the card: ``36.2 GiB at the peak (backward) of 79.2 GiB``."""
    gpu = cost.gpu
    return f"{gib(gpu.peak_allocated_bytes)} at the peak ({gpu.peak_moment}) of {gib(cost.capacity_bytes)}"


def error_words(cost: Estimate) -> str:
    """What keeps a plan off a card that would hold its peak; empty where the peak itself is too much."""
    gpu = cost.gpu
    if gpu.peak_allocated_bytes > cost.capacity_bytes:
        return ""
    return f"up to {gib(gpu.high_bytes)} with the predicted error"


def host_words(cost: Estimate) -> str:
    """The host memory of a node, and how much of it is rounding where that is much."""
    host = cost.host
    of_pinned = cost.plan.stage == PARAMETER_STAGE or host.pinned_bytes + host.pageable_bytes >= host.loading_bytes
    rounding = ""
    if of_pinned and host.rounding_bytes > _LARGE_SHARE * host.peak_bytes:
        rounding = f" ({gib(host.rounding_bytes)} of it by rounding pinned blocks up to powers of two)"
    return f"{gib(host.peak_bytes)} of host memory per node{rounding}"


def limit_words(cost: Estimate, facts: Facts) -> str:
    """The limits that a plan breaks, each with both figures; empty when it breaks none."""
    card = f"needs {peak_words(cost)}, up to {gib(cost.gpu.high_bytes)} with the predicted error"
    gpu = [card] if cost.verdict == "does-not-fit" else []
    return "; ".join([*gpu, *filter(None, [node_words(cost, facts)])])


def node_words(cost: Estimate, facts: Facts) -> str:
    """The same of host memory and NVMe alone."""
    unknown = "" if facts.cluster.host_memory_bytes else ", the most that such nodes have; --host-memory says otherwise"
    words = []
    for need in broken(cost, facts.cluster):
        if need.limit == "host_memory":
            words.append(f"needs {host_words(cost)} of {gib(need.available_bytes)}{unknown}")
        elif need.limit == "nvme":
            words.append(f"needs {gib(cost.nvme_bytes)} on each node's NVMe of {gib(need.available_bytes)}")
    return "; ".join(words)
