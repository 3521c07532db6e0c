"""Counts what this rank sends: every collective that reaches a process group, whatever its backend.

Bytes are those of NCCL's rings (nccl-tests, PERFORMANCE.md): of a tensor that is B bytes when it is whole, one of n
ranks sends 2 (n-1)/n B in an all-reduce, (n-1)/n B in an all-gather, reduce-scatter or all-to-all, and in a reduce on
the average of those that it is for; B in the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_iter

if TYPE_CHECKING:
    from collections.abc import Callable

# methods of a process group, old and new names, with the position of the argument that is whole
_METHODS = {
    "all-reduce": (("allreduce", "allreduce_coalesced"), 0),
    "broadcast": (("broadcast",), 0),
    "reduce": (("reduce",), 0),
    "send": (("send",), 0),
    "all-gather": (
        (
            "allgather",
            "allgather_coalesced",
            "_allgather_base",
            "allgather_into_tensor_coalesced",
            "all_gather_single",
            "all_gather_single_coalesced",
        ),
        0,
    ),
    "reduce-scatter": (
        (
            "reduce_scatter",
            "_reduce_scatter_base",
            "reduce_scatter_tensor_coalesced",
            "reduce_scatter_single",
            "reduce_scatter_single_coalesced",
        ),
        1,
    ),
    "all-to-all": (("alltoall", "alltoall_base", "all_to_all_single"), 1),
    "gather": (("gather",), 1),
    "scatter": (("scatter",), 1),
}
_SHARES = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "all-to-all": 1, "reduce": 1}


class Sent:
    """The collectives of one optimizer step. ``times`` is how often what runs now happens in the whole step."""

    def __init__(self) -> None:
        self.times = 0
        self._counts: dict[tuple[str, str, int, int], list[int]] = {}
        for collective, (methods, position) in _METHODS.items():
            for name in methods:
                plain = getattr(torch.distributed.ProcessGroup, name, None)
                if plain is not None:
                    setattr(torch.distributed.ProcessGroup, name, self._counted(plain, collective, position))

    def restart(self) -> None:
        """Forgets what was counted: another optimizer step begins."""
        self._counts.clear()

    def collectives(self) -> list[dict[str, Any]]:
        """By collective, dtype and size of the group: elements and bytes that this rank sends, number of calls."""
        return [
            {
                "collective": collective,
                "dtype": dtype,
                "group_size": size,
                "elements": round(whole * _share(collective, size)),
                "bytes": round(whole * _share(collective, size)) * element_bytes,
                "count": calls,
            }
            for (collective, dtype, element_bytes, size), (whole, calls) in sorted(self._counts.items())
        ]

    def _counted(self, plain: Callable[..., Any], collective: str, position: int) -> Callable[..., Any]:
        def call(group: Any, *arguments: Any, **named: Any) -> Any:
            whole = (*arguments, *named.values())[position]
            self.add(collective, [one for one in tree_iter(whole) if isinstance(one, torch.Tensor)], int(group.size()))
            return plain(group, *arguments, **named)

        return call

    def add(self, collective: str, tensors: list[torch.Tensor], group_size: int) -> None:
        """Counts a collective over so many ranks; ``tensors`` are the whole."""
        if not self.times or group_size == 1 or not tensors:
            return
        first = tensors[0]
        key = (collective, str(first.dtype).removeprefix("torch."), first.element_size(), group_size)
        counts = self._counts.setdefault(key, [0, 0])
        counts[0] += self.times * sum(one.numel() for one in tensors)
        counts[1] += self.times


def _share(collective: str, group_size: int) -> float:
    """Elements sent per element of the whole tensor."""
    passes = _SHARES.get(collective)
    return 1.0 if passes is None else passes * (group_size - 1) / group_size
