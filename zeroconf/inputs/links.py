"""Links between nodes and between the GPUs of a node: classes by name, or a plain rate."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from zeroconf.errors import InputError
from zeroconf.inputs.tables import read_table
from zeroconf.inputs.text import clean, did_you_mean, shown
from zeroconf.types import Link
from zeroconf.units import gigabits_per_second, parse_bytes_per_second

if TYPE_CHECKING:
    from zeroconf.types import Gpu

Scope = Literal["network", "node"]
ASSUMED_NETWORK = "100gbe"

_RATE = re.compile(r"[\d.]+\s*[kKmMgGtT]?i?(?:bps|Bps|b/s|B/s|bit/s|bits/s|bit)")
_MULTIPLE = re.compile(r"(\d{1,3})\s*[xX*]\s*(.+)")
_MAX_PORTS = 128
_MIN_RATE, _MAX_RATE = 1e5, 1e14
# beyond this, Ethernet is bought for RDMA
_PLAIN_ETHERNET_LIMIT = 100e9 / 8
_RDMA_EFFICIENCY, _RDMA_LOW_EFFICIENCY = 0.92, 0.75
_ETHERNET_LATENCY_SECONDS, _RDMA_LATENCY_SECONDS, _NODE_LATENCY_SECONDS = 40e-6, 16e-6, 5.7e-6
_ETHERNET = ("1gbe", "10gbe", "25gbe", "40gbe", "50gbe", "100gbe")


def _key(name: str) -> str:
    return re.sub(r"[-_\s]+", "", name.lower())


def _names(row: dict[str, str]) -> list[str]:
    return [row["name"], *filter(None, row["aliases"].split("|"))]


def _find_row(name: str) -> dict[str, str] | None:
    wanted = _key(name)
    return next((row for row in read_table("links") if wanted in map(_key, _names(row))), None)


def _link(row: dict[str, str]) -> Link:
    return Link(
        name=row["name"],
        kind=cast("Literal['nvlink', 'pcie', 'ethernet', 'rdma']", row["kind"]),
        bandwidth_bytes_per_second=float(row["bandwidth_gb_per_second"]) * 1e9,
        low_bandwidth_bytes_per_second=float(row["low_gb_per_second"]) * 1e9,
        latency_seconds=float(row["latency_us"]) / 1e6,
        source=row["source"],
        confidence=cast("Literal['measured', 'assumed']", row["confidence"]),
    )


def link(name: str) -> Link:
    """A link of the table by its exact name.

    Raises:
        KeyError: the table has no such name.
    """
    return _link(next(row for row in read_table("links") if row["name"] == name))


def names(scope: Scope) -> list[str]:
    """The names of a scope's classes."""
    return [row["name"] for row in read_table("links") if row["scope"] == scope]


def scope_of(text: str) -> Scope | None:
    """Whether a class joins nodes or the GPUs of one; None for a rate or an unknown class."""
    if _key(text) in {"nvlink", "pcie"}:
        return "node"
    multiple = _MULTIPLE.fullmatch(text)
    row = _find_row(multiple[2] if multiple else text)
    return cast("Scope", row["scope"]) if row else None


def _ethernet(line_rate: float) -> tuple[float, float]:
    """Planning and low rate of plain Ethernet: between the neighbouring classes of the table, linearly."""
    rows = [row for name in _ETHERNET if (row := _find_row(name)) is not None]
    points = [(0.0, 0.0, 0.0)] + [
        (
            float(row["line_gbit_per_second"]) * 1e9 / 8,
            float(row["bandwidth_gb_per_second"]) * 1e9,
            float(row["low_gb_per_second"]) * 1e9,
        )
        for row in rows
    ]
    low, high = next(pair for pair in itertools.pairwise(points) if line_rate <= pair[1][0])
    share = (line_rate - low[0]) / (high[0] - low[0])
    return low[1] + share * (high[1] - low[1]), low[2] + share * (high[2] - low[2])


def _from_rate(text: str, what: str) -> tuple[Link, str]:
    rate = parse_bytes_per_second(text, what)
    if not _MIN_RATE <= rate <= _MAX_RATE:
        msg = f"{what} '{shown(text)}' is out of range; write it like 25Gbps"
        raise InputError(msg)
    name = gigabits_per_second(rate)
    if rate <= _PLAIN_ETHERNET_LIMIT:
        bandwidth, low = _ethernet(rate)
        note = f"{what} {name} is read as plain Ethernet (TCP): {bandwidth / 1e9:.3g} GB/s in collectives"
        kind: Literal["ethernet", "rdma"] = "ethernet"
        latency = _ETHERNET_LATENCY_SECONDS
    else:
        bandwidth, low = rate * _RDMA_EFFICIENCY, rate * _RDMA_LOW_EFFICIENCY
        note = f"{what} {name} is read as RDMA: {bandwidth / 1e9:.3g} GB/s in collectives, 0.92 of the line rate"
        kind, latency = "rdma", _RDMA_LATENCY_SECONDS
    read = Link(
        name=name,
        kind=kind,
        bandwidth_bytes_per_second=bandwidth,
        low_bandwidth_bytes_per_second=low,
        latency_seconds=latency,
        source="the rate given, times the planning efficiency of its class",
        confidence="given",
    )
    return read, note


def read_network(text: str, what: str = "network") -> tuple[Link, tuple[str, ...]]:
    """A link between nodes and what was assumed: a class, a multiple of one (``8xib-hdr``), or a rate.

    Raises:
        InputError: unknown, a link inside nodes, or an absurd rate.
    """
    text = clean(text, what)
    if _RATE.fullmatch(text):
        read, note = _from_rate(text, what)
        return read, (note,)
    multiple = _MULTIPLE.fullmatch(text)
    ports, name = (int(multiple[1]), multiple[2]) if multiple else (1, text)
    if scope_of(name) == "node":
        msg = f"{what} '{shown(text)}' joins the GPUs of one node; name the link between nodes, like 100gbe or ib-ndr"
        raise InputError(msg)
    row = _find_row(name)
    if row is None:
        near = did_you_mean(name, names("network")) or f" (known: {', '.join(names('network'))})"
        msg = f"{what} '{shown(text)}' is not a known class{near}; a rate like 25Gbps works too"
        raise InputError(msg)
    if not 1 <= ports <= _MAX_PORTS:
        msg = f"{what} '{shown(text)}' has an impossible number of ports; give 1 to {_MAX_PORTS}"
        raise InputError(msg)
    single = _link(row)
    if ports == 1:
        return single, ()
    scaled = replace(
        single,
        name=f"{ports}x{single.name}",
        bandwidth_bytes_per_second=ports * single.bandwidth_bytes_per_second,
        low_bandwidth_bytes_per_second=ports * single.low_bandwidth_bytes_per_second,
    )
    return scaled, ()


def read_intra_node(text: str, gpu: Gpu, generations: dict[str, str], what: str = "intra-node link") -> Link:
    """The link between a node's GPUs: a class, ``nvlink`` / ``pcie`` (the GPU's generation), or a rate.

    ``generations`` maps ``nvlink`` and ``pcie`` to the GPU's own classes; an empty one is not built in.

    Raises:
        InputError: unknown, a link between nodes, or NVLink on a GPU without it.
    """
    text = clean(text, what)
    if _RATE.fullmatch(text):
        rate = parse_bytes_per_second(text, what)
        if not _MIN_RATE <= rate <= _MAX_RATE:
            msg = f"{what} '{shown(text)}' is out of range; write it like 50GB/s"
            raise InputError(msg)
        return Link(
            name=gigabits_per_second(rate),
            kind=_kind_of(rate, gpu, generations),
            bandwidth_bytes_per_second=rate,
            low_bandwidth_bytes_per_second=rate,
            latency_seconds=_NODE_LATENCY_SECONDS,
            source="the rate given",
            confidence="given",
        )
    generic = _key(text)
    if generic in {"nvlink", "pcie"}:
        name = generations.get(generic, "")
        if not name:
            msg = f"{what} '{shown(text)}': {gpu.name} has no {text}; name a class like {gpu.intra_node.name}"
            raise InputError(msg)
        return link(name)
    row = _find_row(text)
    if row is None or row["scope"] != "node":
        near = did_you_mean(text, names("node")) or f" (known: {', '.join(names('node'))})"
        msg = f"{what} '{shown(text)}' is not a known link between GPUs{near}; a rate like 50GB/s works too"
        raise InputError(msg)
    return _link(row)


def _kind_of(rate: float, gpu: Gpu, generations: dict[str, str]) -> Literal["nvlink", "pcie", "ethernet", "rdma"]:
    """What a rate between GPUs runs over: more than the GPU's PCIe carries goes over its own link."""
    name = generations.get("pcie")
    return gpu.intra_node.kind if name and rate > link(name).bandwidth_bytes_per_second else "pcie"
