"""What a notation says about a cluster, before the command line's own options complete it."""

from __future__ import annotations

from typing import NamedTuple

from zeroconf.errors import InputError
from zeroconf.types import Gpu, Link, Nvme  # noqa: TC001  (typing.NamedTuple keeps its annotations)

MAX_COUNT = 100_000


class Draft(NamedTuple):
    """Nodes and GPUs, with what the notation itself knows: links as text or read, storage, notes.

    A GPU type without a count is one GPU, and not ``is_counted``.
    """

    name: str
    num_nodes: int
    gpus_per_node: int
    gpu: Gpu
    intra_node: str | None = None
    network: str | Link | None = None
    host_memory_bytes: int | None = None
    nvme: Nvme | None = None
    node_name: str = ""
    assumptions: tuple[str, ...] = ()
    is_counted: bool = True


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
