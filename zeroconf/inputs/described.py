"""An inventory file's values to a draft cluster; off the path of the short notations, which need no YAML."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from zeroconf.errors import InputError
from zeroconf.inputs.draft import Draft
from zeroconf.inputs.gpus import read_gpu
from zeroconf.inputs.inventory import GpuEntry, Inventory, NetworkEntry, read_inventory
from zeroconf.inputs.links import link, read_network
from zeroconf.inputs.storage import make_nvme, read_size
from zeroconf.inputs.text import clean, shown, shown_path
from zeroconf.types import Gpu
from zeroconf.units import parse_bytes_per_second

if TYPE_CHECKING:
    from pathlib import Path

    from zeroconf.types import Link

_LATENCY = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*(ns|us|µs|ms)")
_LATENCY_SCALE = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3}
_DEFAULT_EFFICIENCY = 0.5
_DEFAULT_HOST_LINK_BYTES_PER_SECOND = 22e9


def _latency(text: str) -> float:
    match = _LATENCY.fullmatch(clean(text, "network latency"))
    if match is None:
        msg = f"network latency '{shown(text)}' is not a time; write it like 5us"
        raise InputError(msg)
    return float(match[1]) * _LATENCY_SCALE[match[2]]


def _network(entry: NetworkEntry) -> tuple[Link, tuple[str, ...]]:
    """The link of a rate, with the latency given; a measured rate is what collectives reach already."""
    read, notes = read_network(entry.bandwidth, "network bandwidth")
    if entry.measured:
        rate = parse_bytes_per_second(clean(entry.bandwidth, "network bandwidth"))
        source = "an all-reduce between the nodes, as the inventory says"
        read = replace(
            read,
            bandwidth_bytes_per_second=rate,
            low_bandwidth_bytes_per_second=rate,
            source=source,
            confidence="measured",
        )
        notes = ()
    return (replace(read, latency_seconds=_latency(entry.latency)) if entry.latency else read), notes


def _rate(text: str | None, what: str) -> float | None:
    return None if text is None else parse_bytes_per_second(clean(text, what), what)


def _overridden(gpu: Gpu, entry: GpuEntry) -> Gpu:
    half = entry.bf16_tflops or entry.fp16_tflops
    bandwidth = _rate(entry.memory_bandwidth, "GPU memory bandwidth")
    host_link = _rate(entry.host_link, "GPU host link")
    return replace(
        gpu,
        memory_bytes=read_size(entry.memory, "GPU memory") if entry.memory else gpu.memory_bytes,
        half_flops_per_second=half * 1e12 if half else gpu.half_flops_per_second,
        single_flops_per_second=entry.fp32_tflops * 1e12 if entry.fp32_tflops else gpu.single_flops_per_second,
        memory_bandwidth_bytes_per_second=bandwidth or gpu.memory_bandwidth_bytes_per_second,
        host_link_bytes_per_second=host_link or gpu.host_link_bytes_per_second,
        max_efficiency=entry.max_efficiency or gpu.max_efficiency,
        source=f"inventory, over {gpu.source}",
        confidence="given",
    )


def _new(entry: GpuEntry, unknown: InputError) -> tuple[Gpu, tuple[str, ...]]:
    half = entry.bf16_tflops or entry.fp16_tflops
    if entry.memory is None or entry.memory_bandwidth is None or half is None:
        msg = f"{unknown}; to describe a new GPU give memory, bf16_tflops (or fp16_tflops) and memory_bandwidth"
        raise InputError(msg) from unknown
    has_bf16 = entry.bf16_tflops is not None
    single = entry.fp32_tflops or half / (16 if has_bf16 else 8)
    base = Gpu(
        name=clean(entry.name, "GPU"),
        memory_bytes=0,
        bf16=has_bf16,
        half_flops_per_second=half * 1e12,
        single_flops_per_second=single * 1e12,
        memory_bandwidth_bytes_per_second=0.0,
        max_efficiency=_DEFAULT_EFFICIENCY,
        host_link_bytes_per_second=_DEFAULT_HOST_LINK_BYTES_PER_SECOND,
        intra_node=link("pcie4"),
        source="inventory",
        confidence="given",
    )
    note = f"GPU {entry.name}: what the inventory leaves out is assumed (efficiency 0.5, host link 22 GB/s, pcie4)"
    return replace(_overridden(base, entry), source="inventory"), (note,)


def _gpu(entry: str | GpuEntry) -> tuple[Gpu, tuple[str, ...]]:
    if isinstance(entry, str):
        return read_gpu(entry)
    try:
        known, notes = read_gpu(entry.name)
    except InputError as unknown:
        return _new(entry, unknown)
    given = entry.model_fields_set - {"name"}
    return (_overridden(known, entry) if given else known), notes


def read_draft(path: Path) -> Draft:
    """The cluster that an inventory file describes.

    Raises:
        InputError: unreadable, or a value that is not understood.
    """
    inventory = read_inventory(path)
    try:
        return draft_of(inventory, path.stem)
    except InputError as error:
        msg = f"{shown_path(path)}: {error}"
        raise InputError(msg) from error


def draft_of(inventory: Inventory, name: str) -> Draft:
    """The cluster that an inventory describes.

    Raises:
        InputError: a value that is not understood.
    """
    gpu, notes = _gpu(inventory.gpu)
    nvme = None
    if inventory.nvme is not None:
        entry = inventory.nvme
        nvme, nvme_notes = make_nvme(entry.path, entry.capacity, entry.read, entry.write)
        notes += nvme_notes
    host_memory = read_size(inventory.host_memory, "host_memory") if inventory.host_memory else None
    network: str | Link | None = None
    if isinstance(inventory.network, NetworkEntry):
        network, network_notes = _network(inventory.network)
        notes += network_notes
    else:
        network = inventory.network
    return Draft(
        name=name,
        num_nodes=inventory.nodes,
        gpus_per_node=inventory.gpus_per_node,
        gpu=gpu,
        intra_node=inventory.intra_node,
        network=network,
        host_memory_bytes=host_memory,
        nvme=nvme,
        assumptions=notes,
    )
