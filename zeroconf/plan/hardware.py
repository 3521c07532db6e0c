"""Other hardware than what was given, as the command line would read it: more GPUs, larger cards, memory, disks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeroconf.inputs.cluster import read_cluster
from zeroconf.inputs.gpus import read_gpu
from zeroconf.inputs.links import ASSUMED_NETWORK, link
from zeroconf.inputs.storage import DRIVE_READ_BYTES_PER_SECOND, DRIVE_WRITE_BYTES_PER_SECOND
from zeroconf.types import Cluster, Nvme
from zeroconf.units import GIB, ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.types import Link

MOST_GPUS: Final = 4096
# more than any node of inputs/data/instances.csv has: to ask what a plan needs
AMPLE_BYTES: Final = 10**16
_MOST_HOST_BYTES: Final = 4096 * GIB
_MOST_NVME_BYTES: Final = 64 * 10**12
_NVME_STEP: Final = 10**11
_NODE: Final = 8
# what can be rented, by memory
_LARGER_CARDS: Final = ("A100-80GB", "H200", "B200", "B300")
_NEW_DISK: Final = Nvme(
    path="/scratch",
    capacity_bytes=AMPLE_BYTES,
    read_bytes_per_second=DRIVE_READ_BYTES_PER_SECOND,
    write_bytes_per_second=DRIVE_WRITE_BYTES_PER_SECOND,
)


def option(cluster: Cluster) -> dict[str, object]:
    """How to ask for the cluster: on the command line, or in the inventory file that described its nodes."""
    if not cluster.node_name:
        return {"(in the inventory) nodes:": cluster.num_nodes}
    nodes = "" if cluster.num_nodes == 1 else f"{cluster.num_nodes}x"
    return {"--hardware": f"{nodes}{cluster.node_name}"}


def more_gpus(cluster: Cluster) -> Iterator[Cluster]:
    """Doublings of the GPUs, the fewest first."""
    while cluster.num_gpus < MOST_GPUS:
        cluster = _doubled(cluster)
        yield cluster


def larger_cards(cluster: Cluster) -> Iterator[Cluster]:
    """As many of each larger card, the smallest first; none for an inventory, which describes its own."""
    if not cluster.node_name:
        return
    kept = cluster if _is_counted(cluster) else _without_instance(cluster)
    for name in _LARGER_CARDS:
        gpu, _ = read_gpu(name)
        if gpu.memory_bytes > cluster.gpu.memory_bytes:
            node = f"{cluster.gpus_per_node}x{gpu.name}"
            yield replace(kept, gpu=gpu, intra_node=gpu.intra_node, node_name=node)


def is_extensible(cluster: Cluster) -> bool:
    """Whether its nodes can be given memory or a disk: an instance comes as it is."""
    return not cluster.node_name or _is_counted(cluster)


def ample(cluster: Cluster, *, host: bool = False, nvme: bool = False) -> Cluster:
    """With more host memory, or more NVMe, than anything needs."""
    disk = replace(cluster.nvme or _NEW_DISK, capacity_bytes=AMPLE_BYTES) if nvme else cluster.nvme
    return replace(cluster, host_memory_bytes=AMPLE_BYTES if host else cluster.host_memory_bytes, nvme=disk)


def with_host_memory(cluster: Cluster, num_bytes: int) -> tuple[Cluster, str] | None:
    """With so much, in whole GiB, and how to write that; None where no node has as much."""
    size = ceil_div(num_bytes, GIB)
    if size * GIB > _MOST_HOST_BYTES:
        return None
    return replace(cluster, host_memory_bytes=size * GIB), f"{size}GiB"


def with_nvme(cluster: Cluster, num_bytes: int) -> tuple[Cluster, str] | None:
    """With so much, in tenths of TB, at the node's path and rates or one drive's; None where no node has as much."""
    size = ceil_div(num_bytes, _NVME_STEP)
    if size * _NVME_STEP > _MOST_NVME_BYTES:
        return None
    disk = replace(cluster.nvme or _NEW_DISK, capacity_bytes=size * _NVME_STEP)
    words = f"{disk.path}:{size * 100}GB" if size < 10 else f"{disk.path}:{size / 10:g}TB"
    if cluster.nvme is not None:
        rates = (disk.read_bytes_per_second, disk.write_bytes_per_second)
        words = ":".join([words, *(f"{rate / 1e9:.15g}GB/s" for rate in rates)])
    return replace(cluster, nvme=disk), words


def _is_counted(cluster: Cluster) -> bool:
    """Whether it was given as a number of cards, not as an instance."""
    return cluster.node_name == f"{cluster.gpus_per_node}x{cluster.gpu.name}"


def _doubled(cluster: Cluster) -> Cluster:
    """Twice the GPUs: in the node while it is one of fewer than 8 that nothing else is known of, else in nodes."""
    per_node = cluster.gpus_per_node * 2
    if cluster.num_nodes == 1 and per_node <= _NODE and _is_counted(cluster) and cluster.host_memory_bytes is None:
        return replace(cluster, gpus_per_node=per_node, node_name=f"{per_node}x{cluster.gpu.name}")
    return replace(cluster, num_nodes=cluster.num_nodes * 2, network=cluster.network or _own_network(cluster))


def _own_network(cluster: Cluster) -> Link:
    """What joins such nodes where nothing is said: an instance's own network, else what is assumed."""
    two = read_cluster(f"2x{cluster.node_name}") if cluster.node_name else None
    assumed = link(ASSUMED_NETWORK)
    return (two.network or assumed) if isinstance(two, Cluster) else assumed


def _without_instance(cluster: Cluster) -> Cluster:
    """Without what the instance brought: its disks, memory and network stay behind with it; what was given is kept."""
    own = read_cluster(f"{cluster.num_nodes}x{cluster.node_name}")
    if not isinstance(own, Cluster):
        return cluster
    network = link(ASSUMED_NETWORK) if cluster.num_nodes > 1 and cluster.network == own.network else cluster.network
    return replace(
        cluster,
        host_memory_bytes=None if cluster.host_memory_bytes == own.host_memory_bytes else cluster.host_memory_bytes,
        nvme=None if cluster.nvme == own.nvme else cluster.nvme,
        network=network,
    )
