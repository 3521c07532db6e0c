"""The links between nodes: InfiniBand, RoCE, EFA and Ethernet ports with their rates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zeroconf.detect.machine import count, printable

if TYPE_CHECKING:
    from zeroconf.detect.machine import Machine

Kind = Literal["infiniband", "omni-path", "roce", "efa", "ethernet"]

_RATE = re.compile(r"(\d{1,6}(?:\.\d)?)\s+Gb/sec(?:\s+\((\d)X\s+(\w+)\))?", re.ASCII)
_INFINIBAND_TYPE = "32"  # ARPHRD_INFINIBAND of if_arp.h: IP over a port that is counted already
_UNKNOWN_SPEEDS = (None, 0, 65_535, 2**32 - 1)  # what drivers say that do not know (ethtool's SPEED_UNKNOWN)
_NAMED_PORTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An active port; ``gigabits`` per second is its line rate, None is unknown. ``name`` is the kernel's."""

    name: str
    kind: Kind
    gigabits: float | None
    generation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The active ports that collectives would use, and how they were chosen (``NCCL_IB_HCA`` and the like)."""

    ports: tuple[Port, ...]
    chosen_by: str = ""

    @property
    def fastest(self) -> tuple[Port, ...]:
        """The ports of the best kind and the highest known rate."""
        known = [port for port in self.ports if port.gigabits]
        if not known:
            return ()
        best = max(known, key=lambda port: (port.kind != "ethernet", port.gigabits or 0.0))
        return tuple(port for port in known if (port.kind, port.gigabits) == (best.kind, best.gigabits))


def ports(machine: Machine) -> Ports:
    """RDMA ports and network interfaces that are up; each counted once, bonds as one."""
    environment = machine.environment
    rdma = [] if environment.get("NCCL_IB_DISABLE") == "1" else _rdma_ports(machine)
    wanted = environment.get("NCCL_IB_HCA", "")
    rdma = [port for port in rdma if _is_chosen(port.name, wanted)]
    behind = {name for port in rdma for name in machine.names(f"/sys/class/infiniband/{_device(port)}/device/net")}
    wanted_interfaces = environment.get("NCCL_SOCKET_IFNAME", "")
    interfaces = [port for port in _interfaces(machine) if _is_chosen(port.name, wanted_interfaces)]
    found = [*rdma, *(port for port in interfaces if port.name not in behind)]
    names = [name for name, used in (("NCCL_IB_HCA", wanted), ("NCCL_SOCKET_IFNAME", wanted_interfaces)) if used]
    return Ports(ports=tuple(found), chosen_by=" and ".join(names))


def _device(port: Port) -> str:
    return port.name.partition(":")[0]


def _is_chosen(name: str, wanted: str) -> bool:
    """Whether NCCL takes an interface: ``eth,ib`` are prefixes, ``=eth0`` whole names, ``^docker`` leaves out."""
    exclude, exact = wanted.startswith("^"), wanted.lstrip("^").startswith("=")
    listed = [item.strip() for item in wanted.lstrip("^=").split(",") if item.strip()]
    if not listed:
        return True
    device = name.partition(":")[0]
    if exact:
        found = any(item in (name, device) for item in listed)
    else:
        found = any(name == item or (":" not in item and device.startswith(item)) for item in listed)
    return found != exclude


def _rdma_ports(machine: Machine) -> list[Port]:
    found = []
    for device in machine.names("/sys/class/infiniband"):
        folder = f"/sys/class/infiniband/{device}"
        driver = machine.real(f"{folder}/device/driver").rpartition("/")[2]
        for number in machine.names(f"{folder}/ports"):
            port = f"{folder}/ports/{number}"
            if not (machine.text(f"{port}/state") or "").endswith("ACTIVE"):
                continue
            rate = _RATE.match(machine.text(f"{port}/rate") or "")
            kind = _kind(driver, machine.text(f"{port}/link_layer") or "")
            gigabits = float(rate[1]) if rate and float(rate[1]) > 0 else None
            generation = (rate[3] or "").upper() if rate else ""
            found.append(Port(name=f"{device}:{number}", kind=kind, gigabits=gigabits, generation=generation))
    return found


def _kind(driver: str, link_layer: str) -> Kind:
    if driver == "efa":
        return "efa"
    if driver == "hfi1":
        return "omni-path"
    return "infiniband" if link_layer == "InfiniBand" else "roce"


def _interfaces(machine: Machine) -> list[Port]:
    """Physical Ethernet interfaces that are up; of a bond the bond, of virtual functions the physical one."""
    found = []
    for name in machine.names("/sys/class/net"):
        folder = f"/sys/class/net/{name}"
        is_bond = machine.exists(f"{folder}/bonding")
        if name == "lo" or not (is_bond or machine.exists(f"{folder}/device")):
            continue
        if machine.exists(f"{folder}/wireless") or machine.text(f"{folder}/type") == _INFINIBAND_TYPE:
            continue
        if machine.exists(f"{folder}/master/bonding") or machine.names(f"{folder}/device/physfn/net"):
            continue
        if machine.text(f"{folder}/operstate") not in {"up", "unknown"}:
            continue
        megabits = count(machine.text(f"{folder}/speed"))
        gigabits = None if megabits in _UNKNOWN_SPEEDS or megabits is None else megabits / 1000
        found.append(Port(name=name, kind="ethernet", gigabits=gigabits))
    return found


# --- as an inventory writes it -----------------------------------------------------------------------

_INFINIBAND_CLASSES: dict[tuple[float, str], str] = {
    (40.0, "QDR"): "ib-qdr",
    (56.0, "FDR"): "ib-fdr",
    (100.0, "EDR"): "ib-edr",
    (100.0, "HDR"): "ib-hdr100",
    (200.0, "HDR"): "ib-hdr",
    (200.0, "NDR"): "ib-ndr200",
    (400.0, "NDR"): "ib-ndr",
    (800.0, "XDR"): "ib-xdr",
}


def network_text(found: tuple[Port, ...], known: frozenset[str]) -> str | None:
    """Equal ports as ``--network`` writes them: ``8xib-hdr``, ``roce-200``, ``25gbe``, or a rate.

    ``known`` are the classes of the catalogue. None without ports or rates.
    """
    if not found or found[0].gigabits is None:
        return None
    rate = found[0].gigabits
    total = rate * len(found)
    for name, ports_of_it in ((_class_of(found[0], total), 1), (_class_of(found[0], rate), len(found))):
        if name in known:
            return name if ports_of_it == 1 else f"{ports_of_it}x{name}"
    return f"{total:g}Gbps"


def _class_of(port: Port, gigabits: float) -> str:
    match port.kind:
        case "infiniband":
            return _infiniband_class(port) if gigabits == port.gigabits else ""
        case "omni-path":
            return f"omni-path-{gigabits:g}" if gigabits == port.gigabits else ""
        case "efa":
            return f"efa-{gigabits:g}"
        case "roce":
            return f"roce-{gigabits:g}"
        case "ethernet":
            return f"{gigabits:g}gbe" if gigabits == port.gigabits else ""


def _infiniband_class(port: Port) -> str:
    """By rate and generation; by the rate alone where the port does not name a generation."""
    by_rate = (name for (rate, _), name in _INFINIBAND_CLASSES.items() if rate == port.gigabits)
    return _INFINIBAND_CLASSES.get((port.gigabits or 0.0, port.generation)) or next(by_rate, "")


def describe(found: tuple[Port, ...]) -> str:
    """Equal ports in words: ``mlx5_0:1, mlx5_1:1 at 200 Gb/s each``."""
    names = ", ".join(port.name for port in found)
    if len(found) > _NAMED_PORTS:
        names = f"{found[0].name} to {found[-1].name}, {len(found)} ports"
    each = " each" if len(found) > 1 else ""
    rate = f" at {found[0].gigabits:g} Gb/s{each}" if found[0].gigabits else ""
    return printable(f"{names}{rate}")
