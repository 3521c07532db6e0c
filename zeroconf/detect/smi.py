"""GPUs as the vendors' command-line programs describe them: nvidia-smi, and AMD's rocm-smi."""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, Any

from zeroconf.detect.devices import MOST_GPUS, Device, Gpus
from zeroconf.detect.machine import count, printable

if TYPE_CHECKING:
    from zeroconf.detect.machine import Machine

# only fields that every driver of the last ten years knows, but for the last, which is asked for apart
_FIELDS = "index,uuid,name,memory.total,pcie.link.gen.max,pcie.link.width.max"
_NVLINK = re.compile(r"NV\d+")
_PAIR = re.compile(r"Link type between DRM devices (\d{1,3}) and (\d{1,3})", re.ASCII)
_CARD = re.compile(r"card(\d{1,3})", re.ASCII)


def nvidia_smi_gpus(machine: Machine) -> Gpus | None:
    """NVIDIA's GPUs by ``nvidia-smi``; None where it is not there or shows none."""
    rows = _query(machine, _FIELDS)
    mig = {row[0]: row[1] for row in _query(machine, "index,mig.mode.current") if len(row) == 2}
    devices = []
    for row in rows[:MOST_GPUS]:
        index = count(row[0]) if len(row) == 6 else None
        if index is None:
            continue
        mebibytes = count(row[3])
        devices.append(
            Device(
                index=index,
                name=printable(row[2]) or "unnamed GPU",
                uuid=row[1],
                memory_bytes=mebibytes * 2**20 if mebibytes else None,
                mig=mig.get(row[0]) == "Enabled",
                pcie_generation=count(row[4]),
                pcie_width=count(row[5]),
            )
        )
    if not devices:
        return None
    links = _topology(machine.run("nvidia-smi", "topo", "-m") or "", len(devices))
    return Gpus(devices=tuple(devices), nvlinks=links, source="nvidia-smi")


def _query(machine: Machine, fields: str) -> list[list[str]]:
    text = machine.run("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits") or ""
    try:
        return [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if row]
    except csv.Error:
        return []


def _topology(text: str, number: int) -> frozenset[tuple[int, int]] | None:
    """The pairs joined by NVLink in the matrix of ``nvidia-smi topo -m``: row ``GPU0``, cells X, NV12, SYS..."""
    rows = {}
    for line in text.splitlines():
        words = re.sub(r"\x1b\[[\d;]*m", "", line).split()
        # the header's second word is a GPU too; a row's is a kind of link
        if words and (match := re.fullmatch(r"GPU(\d{1,3})", words[0])) and words[1:2] != ["GPU1"]:
            rows[int(match[1])] = words[1 : number + 1]
    if sorted(rows) != list(range(number)) or any(len(cells) < number for cells in rows.values()):
        return None
    return frozenset((i, j) for i in rows for j in range(i + 1, number) if _NVLINK.fullmatch(rows[i][j]))


def rocm_gpus(machine: Machine) -> Gpus | None:
    """AMD's GPUs by ``rocm-smi``; None where it is not there or shows none."""
    told = _json(machine, "--showproductname", "--showmeminfo", "vram")
    devices: list[Device] = []
    for key, card in sorted(told.items()):
        match = _CARD.fullmatch(key)
        if match is None or not isinstance(card, dict) or len(devices) >= MOST_GPUS:
            continue
        # the names of the fields changed their capitals between releases
        fields = {str(name).lower(): str(value) for name, value in card.items()}
        name = fields.get("card series") or fields.get("card model") or "unnamed GPU"
        memory = count(fields.get("vram total memory (b)"))
        devices.append(Device(index=int(match[1]), name=printable(name), memory_bytes=memory or None, mig=False))
    if not devices:
        return None
    devices.sort(key=lambda device: device.index)
    topology = _json(machine, "--showtopotype").get("system")
    return Gpus(devices=tuple(devices), nvlinks=_xgmi(topology), source="rocm-smi", is_amd=True)


def _json(machine: Machine, *options: str) -> dict[str, Any]:
    text = machine.run("rocm-smi", *options, "--json") or ""
    try:
        # warnings stand before the document
        told = json.loads(text[text.index("{") :])
    except (RecursionError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _xgmi(topology: object) -> frozenset[tuple[int, int]] | None:
    if not isinstance(topology, dict):
        return None
    found = {}
    for key, kind in topology.items():
        if match := _PAIR.search(str(key)):
            first, second = sorted((int(match[1]), int(match[2])))
            found[first, second] = kind == "XGMI"
    return frozenset(pair for pair, joined in found.items() if joined) if found else None
