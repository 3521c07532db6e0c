"""The same job on other numbers of GPUs and over other networks: the facts of each, to be decided anew."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeroconf.inputs.links import link
from zeroconf.plan.changes import on_cluster
from zeroconf.plan.hardware import more_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.types import Cluster, Facts, Link

# from what an office has to what GPUs are rented with, slowest first
NETWORKS: Final = ("1gbe", "10gbe", "25gbe", "100gbe", "ib-hdr", "ib-ndr")
_SMALLER: Final = 3
# one node, then several: each of these comes over each network
_LARGER: Final = (3, 1)


def scenarios(facts: Facts) -> list[Facts]:
    """The given facts among others, the smallest cluster first, each size over the slowest network first.

    On one node nothing crosses a network, so there each size comes once.
    """
    given = facts.cluster
    found = []
    for cluster in _sizes(given, facts.workload.ranks_per_sample):
        for network in _networks(given.network) if cluster.num_nodes > 1 else [None]:
            there = replace(cluster, network=network)
            found.append(facts if there == given else on_cluster(facts, there))
    return found


def _networks(given: Link | None) -> list[Link]:
    """The classes, with the given link in its place: it may be a class whose figures were measured."""
    links = {name: link(name) for name in NETWORKS} | ({given.name: given} if given else {})
    return sorted(links.values(), key=lambda one: one.bandwidth_bytes_per_second)


def _sizes(given: Cluster, ranks_per_sample: int) -> list[Cluster]:
    """The cluster between its halves and its doubles: 1, 2, 4, 8, 16, 32, 64 GPUs around a node of 8."""
    smaller = [*itertools.islice(_fewer_gpus(given), _SMALLER)]
    larger = itertools.islice(more_gpus(given), _LARGER[given.num_nodes > 1])
    sizes = [*reversed(smaller), given, *larger]
    return [size for size in sizes if size.num_gpus % ranks_per_sample == 0]


def _fewer_gpus(cluster: Cluster) -> Iterator[Cluster]:
    """Halvings: of the nodes, then of one node's GPUs, whose host memory stays."""
    while cluster.num_gpus > 1:
        if cluster.num_nodes > 1:
            cluster = replace(cluster, num_nodes=cluster.num_nodes // 2)
        else:
            cluster = replace(cluster, gpus_per_node=cluster.gpus_per_node // 2)
        yield cluster
