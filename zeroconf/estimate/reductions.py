"""The calls in which gradients are reduced: how DeepSpeed fills its buckets, gradient after gradient.

DeepSpeed 0.19.8: engine.py, zero/stage_1_and_2.py, zero/stage3.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zeroconf.estimate.trace import Trace


class Sent(NamedTuple):
    """Elements of whole tensors, and the calls that send them."""

    elements: int
    calls: int

    def times(self, number: int) -> Sent:
        """So many times over."""
        return Sent(self.elements * number, self.calls * number)


NOTHING = Sent(0, 0)


def total(parts: Iterable[Sent]) -> Sent:
    """All of them together."""
    elements = calls = 0
    for part in parts:
        elements += part.elements
        calls += part.calls
    return Sent(elements, calls)


@dataclass(frozen=True, slots=True, eq=False)  # one for each trace: caches look it up by identity
class Gradients:
    """Elements of the gradients as they come, and where each starts in the optimizer's flat group."""

    sizes: tuple[int, ...]
    starts: tuple[int, ...]


@lru_cache(maxsize=128)
def gradients(trace: Trace, trainable: int, more: int, *, ready: bool, linear: bool | None = None) -> Gradients:
    """Those of ``trainable`` elements, the last in forward where a part trains: as they are ready, or registered.

    ``more`` blocks are like the trace's second one. ``linear`` picks those of linear layers or the others.
    """
    parameters, left = trace.parameters, trainable
    chosen: dict[tuple[int, int], int] = {}
    for key in _deepened(trace, trace.gradients, range(more, 0, -1)):
        size = min(left, parameters[key[0]].elements)
        if size:
            chosen[key] = size
        left -= size
    registered = [key for key in _deepened(trace, trace.registered, range(1, more + 1)) if key in chosen]
    starts = dict(zip(registered, accumulate((chosen[key] for key in registered), initial=0), strict=False))
    order = list(chosen) if ready else registered
    picked = [key for key in order if linear is None or parameters[key[0]].linear is linear]
    return Gradients(tuple(chosen[key] for key in picked), tuple(starts[key] for key in picked))


def _deepened(trace: Trace, order: tuple[int, ...], copies: range) -> list[tuple[int, int]]:
    """Parameters with the copy of their block: 0, and those of the second block again for each of ``copies``."""
    found = [(one, 0) for one in order]
    if not copies:
        return found
    inside = [at for at, one in enumerate(order) if one in trace.blocks[1]]
    first, last = inside[0], inside[-1] + 1
    more = [(one, copy) for copy in copies for one in order[first:last]]
    # copies come after the second block in the optimizer's order, before it in backward's
    at = last if copies.step > 0 else first
    return found[:at] + more + found[at:]


def _passing(sizes: Iterable[int], limit: int) -> Iterator[int]:
    """Fillings of a bucket that is sent when it has passed its limit. 4, 4, 4 in 6: 8 and 4."""
    filled = 0
    for size in sizes:
        filled += size
        if filled > limit:
            yield filled
            filled = 0
    if filled:
        yield filled


@lru_cache(maxsize=256)
def whole_buckets(found: Gradients, limit: int) -> Sent:
    """Stage 0: engine.py, allreduce_no_retain."""
    return Sent(sum(found.sizes), sum(1 for _ in _passing(found.sizes, limit)))


def _slices(start: int, size: int, share: int) -> Iterator[int]:
    """A gradient's parts by the rank that owns them (stage_1_and_2.py: initialize_gradient_partition)."""
    end = start + size
    while start < end:
        until = min(end, (start // share + 1) * share)
        yield until - start
        start = until


@lru_cache(maxsize=256)
def partition_buckets(found: Gradients, limit: int, share: int, *, to_owners: bool, splits: bool) -> Sent:
    """Stages 1 and 2: a gradient that does not go in has the bucket reduced first.

    zero/stage_1_and_2.py: reduce_independent_p_g_buckets_and_remove_grads, average_tensor. A bucket is one all-reduce,
    or ``to_owners`` a reduce for each rank that owns a ``share`` of it (use_multi_rank_bucket_allreduce false). A
    gradient beyond the limit goes alone, and ``splits`` where its owners' parts have passed the limit.
    """
    calls = filled = 0
    owners: set[int] = set()

    def sent() -> int:
        return len(owners) if to_owners else 1

    for size, start in zip(found.sizes, found.starts, strict=True):
        if filled + size > limit and filled:
            calls += sent()
            filled = 0
            owners.clear()
        if to_owners:
            owners.update(range(start // share, (start + size - 1) // share + 1))
        elif size > limit and splits:
            # all but the last call, which the next gradient brings
            calls += sum(1 for _ in _passing(_slices(start, size, share), limit)) - 1
        filled += size
    return Sent(sum(found.sizes), calls + (sent() if filled else 0))


@lru_cache(maxsize=256)
def scattered_buckets(found: Gradients, limit: int, ranks: int) -> Sent:
    """Stage 3: each gradient padded to a multiple of the ranks (coalesced_collectives.py: reduce_scatter_coalesced).

    Whatever its size, a gradient goes into an empty bucket (zero/stage3.py). 3, 4, 4, 4 in 10 on 4 ranks: 16 elements
    in two calls.
    """
    calls = filled = 0
    for size in found.sizes:
        if filled and filled + size > limit:
            calls += 1
            filled = 0
        filled += size
    return Sent(sum(-(-size // ranks) for size in found.sizes) * ranks, calls + bool(filled))


@lru_cache(maxsize=256)
def reduced_buckets(found: Gradients, limit: int, ranks: int) -> tuple[Sent, Sent]:
    """Stage 3 without reduce_scatter: buckets that are all-reduced, and gradients beyond one that are scattered.

    zero/stage3.py: __reduce_and_partition_ipg_grads all-reduces what its contiguous buffer holds.
    """
    large = [size for size in found.sizes if size > limit]
    calls = filled = 0
    for size in found.sizes:
        if filled and filled + size > limit:
            calls += 1
            filled = 0
        filled += size if size <= limit else 0
    small = Sent(sum(found.sizes) - sum(large), calls + bool(filled))
    return small, total(Sent(ceil_div(size, ranks) * ranks, 1) for size in large)
