"""``--hardware`` with ``--network``, ``--intra-node``, ``--host-memory`` and ``--nvme``: a Cluster, or a GpuType."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zeroconf.errors import InputError
from zeroconf.inputs import gpus, instances
from zeroconf.inputs.draft import Draft, checked_count
from zeroconf.inputs.links import ASSUMED_NETWORK, link, read_intra_node, read_network, scope_of
from zeroconf.inputs.storage import read_nvme, read_size
from zeroconf.inputs.text import clean, did_you_mean, is_file, shown
from zeroconf.types import Cluster, GpuType, Link
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from zeroconf.types import Gpu, Nvme

_TIMES = r"\s*[xX*×]\s*"
_COUNTED = re.compile(rf"(?:(\d{{1,20}}){_TIMES})?(?:(\d{{1,20}}){_TIMES})?(.+)", re.ASCII)
_INVENTORY_SUFFIXES = (".yaml", ".yml", ".json")
# no node of ours holds more GPUs (DGX-2, a2-megagpu-16g); a larger bare count is a slip worth asking about
_MOST_GPUS_WITHOUT_NODES = 16
# classes that name one port; nodes of so many GPUs have one for each on InfiniBand
_ONE_PORT = re.compile(r"ib-[a-z]+\d*", re.ASCII)
_GPUS_WITH_PORTS = 4
_DOUBTFUL = ("assumed", "recalled")


def _unknown(text: str, name: str, error: InputError) -> InputError:
    near = did_you_mean(name, [*gpus.spellings(), *instances.names()])
    if not near or "not known" not in str(error):
        return error
    return InputError(f"hardware '{shown(text)}' is neither a GPU nor an instance{near}; an inventory file works too")


def _notation(text: str) -> Draft:
    """``[NODESx][GPUSx]TYPE`` or ``[NODESx]INSTANCE``."""
    match = _COUNTED.fullmatch(text)
    if match is None:
        msg = f"hardware '{shown(text)}' is not understood; write it like 8xA100-80GB or 2xp4d.24xlarge"
        raise InputError(msg)
    first, second, name = match[1], match[2], match[3]
    row = instances.find(name)
    if row is not None:
        if second is not None:
            msg = f"hardware '{shown(text)}': {row['name']} brings its own GPUs; write {first}x{row['name']}"
            raise InputError(msg)
        return instances.draft(row, checked_count(first or "1", "number of nodes"))
    try:
        gpu, notes = gpus.read_gpu(name)
    except InputError as error:
        raise _unknown(text, name, error) from error
    if first is None:
        return Draft(name=gpu.name, num_nodes=1, gpus_per_node=1, gpu=gpu, assumptions=notes, is_counted=False)
    nodes = checked_count(first, "number of nodes") if second else 1
    per_node = checked_count(second or first, "number of GPUs")
    if second is None and per_node > _MOST_GPUS_WITHOUT_NODES:
        example = f"{ceil_div(per_node, 8)}x8x{name}"
        msg = f"hardware '{shown(text)}': nodes are missing; write nodes x GPUs per node, like {shown(example)}"
        raise InputError(msg)
    return Draft(
        name=text,
        num_nodes=nodes,
        gpus_per_node=per_node,
        gpu=gpu,
        node_name=f"{per_node}x{gpu.name}",
        assumptions=notes,
    )


def _read_draft(text: str) -> Draft:
    path = Path(text)
    if text.lower().endswith(_INVENTORY_SUFFIXES) or is_file(path):
        from zeroconf.inputs.described import read_draft  # noqa: PLC0415  (pydantic and YAML, for inventories only)

        return read_draft(path)
    return _notation(text)


def _network(draft: Draft, network: str | None) -> tuple[Link | None, tuple[str, ...]]:
    """The link between the nodes: the option's, the notation's own, or a cautious assumption."""
    if not draft.is_counted:
        return (link(ASSUMED_NETWORK), ()) if network is None else read_network(network)
    if draft.num_nodes == 1:
        if network is None:
            return None, ()
        unused, _ = read_network(network)
        return None, (f"network {unused.name} is not used: there is one node",)
    chosen = network if network is not None else draft.network
    if isinstance(chosen, Link):
        return chosen, ()
    if chosen is not None:
        return read_network(chosen)
    assumed = link(ASSUMED_NETWORK)
    return assumed, (_assumed_words(assumed, draft.num_nodes),)


def _assumed_words(assumed: Link, num_nodes: int) -> str:
    return (
        f"NO NETWORK WAS GIVEN: {ASSUMED_NETWORK} without RDMA is assumed between the {num_nodes} nodes,"
        f" {assumed.bandwidth_bytes_per_second / 1e9:g} GB/s in collectives; name it with --network"
    )


def _intra_node(gpu: Gpu, gpus_per_node: int, text: str | None) -> tuple[Link, tuple[str, ...]]:
    if text is None:
        return gpu.intra_node, ()
    chosen = read_intra_node(text, gpu, gpus.link_generations(gpu))
    if gpus_per_node == 1:
        return chosen, (f"intra-node link {chosen.name} is not used: a node has one GPU",)
    if "bridge" in chosen.name and gpus_per_node > 2:
        return chosen, (f"{chosen.name} joins pairs: rings over {gpus_per_node} GPUs also cross PCIe, which is slower",)
    return chosen, ()


def _doubts(gpu: Gpu, within: Link | None, between: Link | None) -> tuple[str, ...]:
    """Which figures that decide something nobody has measured or read in a published file."""
    notes = []
    if gpu.confidence in _DOUBTFUL:
        notes.append(f"figures of {gpu.name} are partly {gpu.confidence}, not verified: {gpu.source}")
    for found in (within, between):
        if found is not None and found.confidence in _DOUBTFUL:
            rate = f"{found.bandwidth_bytes_per_second / 1e9:.3g} GB/s in collectives over {found.name}"
            notes.append(f"{rate}: {found.confidence}, not measured ({found.source})")
    return tuple(notes)


def with_links(cluster: Cluster, *, intra_node: Link | None, network: Link | None) -> Cluster:
    """The cluster with other links, where they are given, and without the doubts about those that they replace."""
    before, between = cluster.intra_node, cluster.network
    stale = _doubts(cluster.gpu, before if intra_node else None, between if network else None)
    if network and between:
        stale += (_assumed_words(between, cluster.num_nodes),)
    kept = set(_doubts(cluster.gpu, None, None))
    return replace(
        cluster,
        intra_node=intra_node or before,
        network=network or between,
        assumptions=tuple(note for note in cluster.assumptions if note in kept or note not in stale),
    )


def _merged_intra_node(network: str | None, intra_node: str | None, *, one_node: bool) -> tuple[str | None, str | None]:
    """On one node ``--network nvlink`` says what ``--intra-node nvlink`` says."""
    if network is None or not one_node or scope_of(network.strip()) != "node":
        return network, intra_node
    if intra_node is not None and intra_node.strip().lower() != network.strip().lower():
        msg = f"network '{shown(network)}' and intra-node link '{shown(intra_node)}' contradict each other on one node"
        raise InputError(msg)
    return None, network


def _ports_note(gpus_per_node: int, link: Link | None) -> tuple[str, ...]:
    """Nodes of many GPUs have an InfiniBand port for each; a class is one port."""
    if link is None or gpus_per_node < _GPUS_WITH_PORTS or not _ONE_PORT.fullmatch(link.name):
        return ()
    share = f"the {gpus_per_node} GPUs of a node share one {link.name} port"
    return (f"{share}; where each has its own, say --network {gpus_per_node}x{link.name}",)


def read_cluster(
    hardware: str | Draft,
    *,
    network: str | None = None,
    intra_node: str | None = None,
    host_memory: str | None = None,
    nvme: str | None = None,
) -> Cluster | GpuType:
    """The cluster, or the GPU type without a count, that the options describe. A draft is what a probe found.

    The options override what an instance or inventory says.

    Raises:
        InputError: something that is not understood, ambiguous, or contradicts itself.
    """
    draft = hardware if isinstance(hardware, Draft) else _read_draft(clean(hardware, "hardware"))
    memory_bytes = read_size(host_memory, "host memory") if host_memory is not None else None
    storage: Nvme | None = None
    notes: tuple[str, ...] = ()
    if nvme is not None:
        storage, notes = read_nvme(nvme)
    one_node = draft.is_counted and draft.num_nodes == 1
    network, intra_node = _merged_intra_node(network, intra_node, one_node=one_node)
    between, network_notes = _network(draft, network)
    # of a type alone there may be more than one
    per_node = draft.gpus_per_node if draft.is_counted else 2
    within, intra_notes = _intra_node(draft.gpu, per_node, intra_node or draft.intra_node)
    named = network is not None or draft.network is not None
    doubts = _doubts(draft.gpu, within if per_node > 1 else None, between if named else None)
    ports = _ports_note(draft.gpus_per_node, between) if network is not None else ()
    cluster = Cluster(
        name=draft.name,
        num_nodes=draft.num_nodes,
        gpus_per_node=draft.gpus_per_node,
        gpu=draft.gpu,
        intra_node=within,
        network=between,
        host_memory_bytes=memory_bytes if memory_bytes is not None else draft.host_memory_bytes,
        nvme=storage or draft.nvme,
        node_name=draft.node_name,
        assumptions=(*draft.assumptions, *network_notes, *intra_notes, *notes, *ports, *doubts),
    )
    return cluster if draft.is_counted else GpuType(cluster)
