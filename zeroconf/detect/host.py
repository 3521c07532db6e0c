"""A node's memory: what it has, and what a control group or a job lets a program use."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.detect.machine import Machine

_TOTAL = re.compile(r"^MemTotal:\s+(\d{1,15})\s+kB$", re.MULTILINE | re.ASCII)
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d{1,15})\s+kB$", re.MULTILINE | re.ASCII)
_CACHE = re.compile(r"^(?:total_)?inactive_file (\d{1,18})$", re.MULTILINE | re.ASCII)
_USED_FILES = {"memory.limit_in_bytes": "memory.usage_in_bytes", "memory.max": "memory.current"}
_ESCAPE = re.compile(r"\\([0-7]{3})")
# version 1 and 2 of control groups
_LIMIT_FILES = {"cgroup": "memory.limit_in_bytes", "cgroup2": "memory.max"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemory:
    """Bytes of a node; None is unknown. ``limit_bytes`` is the least limit of the control groups, None for none."""

    total_bytes: int | None
    limit_bytes: int | None
    limit_path: str = ""

    @property
    def usable_bytes(self) -> int | None:
        """What a program can use at most; None is unknown."""
        known = [value for value in (self.total_bytes, self.limit_bytes) if value is not None]
        return min(known, default=None)


def host_memory(machine: Machine) -> HostMemory:
    """The memory of this node, and the least limit from our control group up to the root of what is visible."""
    total = _total_bytes(machine)
    limits = [limit for limit in _limits(machine) if total is None or limit[0] < total]
    # an unlimited group of version 1 says 2^63 less a page, which is no limit even where the total is unknown
    limit_bytes, limit_path = min((limit for limit in limits if limit[0] < 2**60), default=(None, ""))
    return HostMemory(total_bytes=total, limit_bytes=limit_bytes, limit_path=limit_path)


def free_memory(machine: Machine, memory: HostMemory) -> int | None:
    """Bytes that a program can still take now: what the kernel calls available, or what the limit leaves; None unknown.

    Of what a group uses, the cache of files that nobody reads now is given up first (memory.stat: inactive_file; of
    version 1 total_inactive_file, which stands behind the group's own).
    """
    found = _AVAILABLE.search(machine.text("/proc/meminfo") or "")
    free = [int(found[1]) * 1024] if found else []
    if memory.limit_bytes is not None:
        limit_path = PurePosixPath(memory.limit_path)
        used = machine.number(str(limit_path.with_name(_USED_FILES[limit_path.name])))
        cache = _CACHE.findall(machine.text(str(limit_path.with_name("memory.stat"))) or "")
        if used is not None:
            free.append(max(0, memory.limit_bytes - used + int(cache[-1] if cache else 0)))
    return min(free, default=None)


def _total_bytes(machine: Machine) -> int | None:
    match = _TOTAL.search(machine.text("/proc/meminfo") or "")
    if match is not None:
        return int(match[1]) * 1024
    return total_elsewhere() if machine.root == Path("/") else None


def total_elsewhere() -> int | None:
    """Of a system without /proc/meminfo, as macOS and Windows are."""
    try:
        import psutil  # noqa: PLC0415  (an optional package)
    except ImportError:
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):
            return None
    return int(psutil.virtual_memory().total)


def _limits(machine: Machine) -> Iterator[tuple[int, str]]:
    """Every limit that binds this process: of its memory group and of the groups above it."""
    ours = _own_groups(machine)
    for kind, root, mount in _group_mounts(machine):
        folder = _below(ours.get(kind, "/"), root)
        for group in (folder, *folder.parents):
            path = str(PurePosixPath(mount, str(group).lstrip("/"), _LIMIT_FILES[kind]))
            if limit := machine.number(path):
                yield limit, path


def _own_groups(machine: Machine) -> dict[str, str]:
    """The path of our group by hierarchy: lines ``4:memory:/path`` are version 1, ``0::/path`` version 2."""
    found = {}
    for line in (machine.text("/proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            found["cgroup"] = path
        elif number == "0" and not controllers:
            found["cgroup2"] = path
    return found


def _group_mounts(machine: Machine) -> Iterator[tuple[str, str, str]]:
    """Kind, root and mount point of each hierarchy that may limit memory (proc(5), mountinfo)."""
    for line in (machine.text("/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in _LIMIT_FILES:
            continue
        if kind[0] == "cgroup2" or "memory" in kind[2].split(","):
            yield kind[0], unescaped(fields[3]), unescaped(fields[4])


def _below(group: str, root: str) -> PurePosixPath:
    """A group's path below what is mounted; a container sees its own group as the root of the mount."""
    try:
        return PurePosixPath("/", PurePosixPath(group).relative_to(root))
    except ValueError:
        return PurePosixPath("/")


def unescaped(text: str) -> str:
    r"""A path of /proc/mounts: blanks and the like are written ``\040`` there."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
