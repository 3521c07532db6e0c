"""Cloud instances and well-known nodes, by name."""

from __future__ import annotations

from zeroconf.inputs.draft import Draft
from zeroconf.inputs.gpus import read_gpu
from zeroconf.inputs.storage import (
    DRIVE_READ_BYTES_PER_SECOND,
    DRIVE_WRITE_BYTES_PER_SECOND,
    INSTANCE_PATH,
    MEASURED_DRIVES,
)
from zeroconf.inputs.tables import read_table
from zeroconf.types import Nvme
from zeroconf.units import GIB, gib


def _key(name: str) -> str:
    return name.lower().removeprefix("standard_").replace(" ", "-")


def find(name: str) -> dict[str, str] | None:
    """The row of an instance name (``Standard_`` may be left out), or None."""
    wanted = _key(name)
    return next((row for row in read_table("instances") if _key(row["name"]) == wanted), None)


def names() -> list[str]:
    """The names of all known instances."""
    return [row["name"] for row in read_table("instances")]


def _nvme(row: dict[str, str]) -> Nvme | None:
    if not row["nvme_drives"]:
        return None
    drives = int(row["nvme_drives"])
    return Nvme(
        path=INSTANCE_PATH,
        capacity_bytes=drives * int(row["nvme_gb_per_drive"]) * 10**9,
        read_bytes_per_second=min(drives, MEASURED_DRIVES) * DRIVE_READ_BYTES_PER_SECOND,
        write_bytes_per_second=min(drives, MEASURED_DRIVES) * DRIVE_WRITE_BYTES_PER_SECOND,
    )


def draft(row: dict[str, str], num_nodes: int) -> Draft:
    """A number of equal instances."""
    gpu, _ = read_gpu(row["gpu"])
    nvme = _nvme(row)
    host_memory = int(row["host_memory_gib"]) * GIB if row["host_memory_gib"] else None
    host = "host memory not known" if host_memory is None else f"{gib(host_memory, 0)} host memory"
    notes = [f"{row['name']}: {row['gpus_per_node']} x {row['gpu']}, {host}"]
    if row["confidence"] != "verified":
        notes.append(f"the figures of {row['name']} are {row['confidence']}, not verified")
    if nvme is not None:
        notes.append(
            f"local NVMe of {row['name']}: {nvme.capacity_bytes / 1e12:.3g} TB as one volume at {nvme.path},"
            f" {nvme.read_bytes_per_second / 1e9:g} GB/s read and {nvme.write_bytes_per_second / 1e9:g} GB/s write"
            " (path and rates assumed)"
        )
    return Draft(
        name=row["name"] if num_nodes == 1 else f"{num_nodes}x{row['name']}",
        num_nodes=num_nodes,
        gpus_per_node=int(row["gpus_per_node"]),
        gpu=gpu,
        intra_node=row["intra_node"] or None,
        network=row["network"] or None,
        host_memory_bytes=host_memory,
        nvme=nvme,
        node_name=row["name"],
        assumptions=tuple(notes),
    )
