"""Local NVMe: the mount points on it, and the room that they have."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zeroconf.detect.host import unescaped
from zeroconf.detect.machine import printable

if TYPE_CHECKING:
    from pathlib import Path

    from zeroconf.detect.machine import Machine

_SMALLEST_BYTES = 2**30
# disks behind a network that show up as NVMe: their model names on AWS, Google Cloud and Azure
_REMOTE_MODELS = ("amazon elastic block store", "nvme_card-pd", "msft nvme accelerator")
_DISK = re.compile(r"nvme\d+(?:c\d+)?n\d+")
_DEEPEST_STACK = 8

FreeBytes = Callable[["Path"], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmeMount:
    """A writable mount point on local NVMe only; ``free_bytes`` is what this user can still write."""

    path: str
    device: str
    drives: tuple[str, ...]
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The mounts with most room first, local drives that nothing is mounted from, and drives behind a network."""

    mounts: tuple[NvmeMount, ...]
    unmounted: tuple[str, ...]
    remote: tuple[str, ...]


def free_bytes(path: Path) -> int | None:
    """What this user can write at a path; None when it is no folder, cannot be written or does not say."""
    try:
        if not path.is_dir() or not os.access(path, os.W_OK):
            return None
        said = os.statvfs(path)
    except (AttributeError, OSError, ValueError):
        return None
    return None if said.f_flag & os.ST_RDONLY else said.f_bavail * said.f_frsize


def storage(machine: Machine, free: FreeBytes = free_bytes) -> Storage:
    """The local NVMe of this machine."""
    disks = [name for name in machine.names("/sys/block") if _DISK.fullmatch(name)]
    remote = {name for name in disks if _is_remote(machine, name)}
    mounts: dict[str, NvmeMount] = {}
    used: set[str] = set()
    for source, path in _mounted(machine):
        device = machine.real(source).rpartition("/")[2]
        drives = _drives(machine, device)
        used.update(drives)
        if not drives or not all(_DISK.fullmatch(name) and name not in remote for name in drives):
            continue
        room = free(machine.path(path))
        # containers mount one device many times: its first mount is the one that others are taken from
        if room is not None and room >= _SMALLEST_BYTES and path.isprintable():
            mounts.setdefault(device, NvmeMount(path=path, device=device, drives=drives, free_bytes=room))
    ranked = sorted(mounts.values(), key=lambda mount: (-mount.free_bytes, mount.path))
    unmounted = [name for name in disks if name not in used and name not in remote]
    return Storage(mounts=tuple(ranked), unmounted=tuple(unmounted), remote=tuple(sorted(remote)))


def _mounted(machine: Machine) -> list[tuple[str, str]]:
    """Device and mount point of each line of /proc/mounts that names a device and may be written."""
    found = []
    for line in (machine.text("/proc/mounts") or "").splitlines():
        fields = line.split(" ")
        if len(fields) >= 4 and fields[0].startswith("/dev/") and "rw" in fields[3].split(","):
            found.append((unescaped(fields[0]), unescaped(fields[1])))
    return found


def _drives(machine: Machine, device: str, depth: int = 0) -> tuple[str, ...]:
    """The disks under a block device: a partition's disk, the members of a RAID or of a logical volume."""
    folder = f"/sys/class/block/{device}"
    if not device or depth > _DEEPEST_STACK or not machine.exists(folder):
        return ()
    if machine.exists(f"{folder}/partition"):
        return (machine.real(folder).rpartition("/")[0].rpartition("/")[2],)
    members = machine.names(f"{folder}/slaves")
    if not members:
        return (device,)
    return tuple(sorted({disk for name in members for disk in _member(machine, name, depth)}))


def _member(machine: Machine, name: str, depth: int) -> tuple[str, ...]:
    # a member that is not understood makes the whole volume one that is not NVMe
    return _drives(machine, name, depth + 1) or (name,)


def _is_remote(machine: Machine, disk: str) -> bool:
    """Whether a disk is behind a network: NVMe over fabrics, or a cloud's block store."""
    transport = machine.text(f"/sys/block/{disk}/device/transport")
    model = (machine.text(f"/sys/block/{disk}/device/model") or "").lower()
    return transport not in (None, "pcie") or model.startswith(_REMOTE_MODELS)


def describe(mount: NvmeMount) -> str:
    """A mount in words, for the reader of an inventory."""
    drives = f"{len(mount.drives)} drives" if len(mount.drives) > 1 else "one drive"
    return printable(f"free on {mount.device} ({drives})")
