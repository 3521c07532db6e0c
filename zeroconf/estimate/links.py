"""Seconds that collectives take over the links between GPUs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from zeroconf.types import Cluster, CollectiveKind, Link

# launching a collective, and one hop inside a node (NCCL src/graph/tuning.cc, ring, Simple protocol)
_LAUNCH_SECONDS: Final = 8.4e-6
# what a call costs beyond its hops until the ring is full. In t = alpha + bytes / bandwidth over nccl-tests sweeps
# alpha is 150 us (2 p5), 370 us (2 p4de) and 414 us (4 p6-b200) between nodes, 61 us inside one p6-b200; hops
# make 70 to 150 and 30 of it. Public tables of aws-samples/awsome-distributed-training and stas00/ml-engineering
_NETWORK_FILL_SECONDS: Final = 200e-6
_NODE_FILL_SECONDS: Final = 30e-6


def job_link(cluster: Cluster) -> Link:
    """The slowest link of a ring over all ranks: NCCL opens one ring per port, so a node's ports count together."""
    if cluster.num_nodes == 1 or cluster.network is None:
        return cluster.intra_node
    if cluster.gpus_per_node == 1:
        return cluster.network
    return min(cluster.intra_node, cluster.network, key=lambda link: link.bandwidth_bytes_per_second)


def call_latency_seconds(kind: CollectiveKind, cluster: Cluster, world_size: int) -> float:
    """Latency of one call: launch, then one hop per rank of a ring; an all-reduce may take NCCL's tree instead.

    All-gather over 16 GPUs on 2 NVLink nodes joined by RDMA (3.4 us and 14 us a hop): 70 us.
    """
    nodes = ceil_div(world_size, cluster.gpus_per_node)
    local, between = cluster.intra_node.latency_seconds, 0.0
    if nodes > 1 and cluster.network is not None:
        between = cluster.network.latency_seconds
    ring = (world_size - nodes) * local + (nodes - 1) * between
    if kind != "all-reduce":
        return _LAUNCH_SECONDS + ring
    tree = (ceil_div(world_size, nodes) - 1) * local + math.log2(nodes) * between
    return _LAUNCH_SECONDS + 2 * min(ring, tree)


def call_seconds(kind: CollectiveKind, cluster: Cluster, world_size: int) -> float:
    """What a call costs beside its bytes: latency, and filling the ring."""
    inside = world_size <= cluster.gpus_per_node
    fill = _NODE_FILL_SECONDS if inside else _NETWORK_FILL_SECONDS
    return call_latency_seconds(kind, cluster, world_size) + fill
