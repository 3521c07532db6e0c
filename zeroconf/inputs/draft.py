"""What a notation says about a cluster, before the command line's own options complete it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zeroconf.errors import InputError

if TYPE_CHECKING:
    from zeroconf.types import Gpu, Link, Nvme

MAX_COUNT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Nodes and GPUs, with what the notation itself knows: links as text or read, storage, notes."""

    name: str
    num_nodes: int
    gpus_per_node: int
    gpu: Gpu
    intra_node: str | None = None
    network: str | Link | None = None
    host_memory_bytes: int | None = None
    nvme: Nvme | None = None
    assumptions: tuple[str, ...] = ()


def checked_count(text: str, what: str) -> int:
    """A count between 1 and 100000.

    Raises:
        InputError: out of range.
    """
    count = int(text)
    if not 1 <= count <= MAX_COUNT:
        msg = f"{what} {text[:20]} is out of range; give 1 to {MAX_COUNT}"
        raise InputError(msg)
    return count
