"""The calls in which gradients are reduced: how DeepSpeed fills its buckets, gradient after gradient.

DeepSpeed 0.19.8: engine.py, zero/stage_1_and_2.py, zero/stage3.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Sent(NamedTuple):
    """Elements of whole tensors, and the calls that send them."""

    elements: int
    calls: int

    def __add__(self, other: object) -> Sent:
        """Both together."""
        return Sent(self.elements + other.elements, self.calls + other.calls) if isinstance(other, Sent) else NotImplemented

    def __mul__(self, times: object) -> Sent:
        """So many times over."""
        return Sent(self.elements * times, self.calls * times) if isinstance(times, int) else NotImplemented


NOTHING = Sent(0, 0)


def whole_buckets(gradients: Iterable[int], limit: int) -> Sent:
    """Stage 0: a bucket is sent when it has passed its limit (engine.py: allreduce_no_retain). 4, 4, 4 in 6: 2 calls."""
    sent, filled = NOTHING, 0
    for gradient in gradients:
        filled += gradient
        if filled > limit:
            sent, filled = sent + Sent(filled, 1), 0
    return sent + Sent(filled, 1) if filled else sent


def owners(tensors: Sequence[int], partition: int) -> list[tuple[tuple[int, int], ...]]:
    """By tensor of a flat group: the ranks that own its parts, with their elements.

    zero/stage_1_and_2.py: initialize_gradient_partition. 4, 4 with shares of 6: (0, 4) and (0, 2), (1, 2).
    """
    found, start = [], 0
    for tensor in tensors:
        parts, at, end = [], start, start + tensor
        while at < end:
            rank = at // partition
            until = min(end, (rank + 1) * partition)
            parts.append((rank, until - at))
            at = until
        found.append(tuple(parts))
        start = end
    return found


def partition_buckets(
    gradients: Sequence[int], parts: Sequence[tuple[tuple[int, int], ...]], limit: int, *, to_owners: bool, split: bool
) -> Sent:
    """Stages 1 and 2: a gradient that does not go in has the bucket reduced first.

    zero/stage_1_and_2.py: reduce_independent_p_g_buckets_and_remove_grads, average_tensor. A bucket is one all-reduce,
    or ``to_owners`` a reduce for each rank that owns a part of it (use_multi_rank_bucket_allreduce false). A gradient
    beyond the limit goes alone, ``split`` where its owners' parts have passed the limit.
    """
    buckets: list[list[int]] = [[]]
    filled = 0
    for one, gradient in enumerate(gradients):
        if filled + gradient > limit and buckets[-1]:
            buckets.append([])
            filled = 0
        buckets[-1].append(one)
        filled += gradient
    return Sent(sum(gradients), sum(_calls(bucket, parts, limit, to_owners, split) for bucket in buckets if bucket))


def _calls(
    bucket: Sequence[int], parts: Sequence[tuple[tuple[int, int], ...]], limit: int, to_owners: bool, split: bool
) -> int:
    if not split:
        return 1
    by_owner: dict[int, list[int]] = {}
    for one in bucket:
        for rank, elements in parts[one]:
            by_owner.setdefault(rank if to_owners else 0, []).append(elements)
    if to_owners:
        return sum(whole_buckets(_merged(sizes), limit).calls for sizes in by_owner.values())
    return whole_buckets(by_owner[0], limit).calls


def _merged(sizes: Sequence[int]) -> Sequence[int]:
    # neighbours of one owner are one slice
    return (sum(sizes),)


def scattered_buckets(gradients: Iterable[int], limit: int, ranks: int) -> Sent:
    """Stage 3: each gradient padded to a multiple of the ranks (coalesced_collectives.py: reduce_scatter_coalesced).

    A gradient goes in if the bucket is empty, whatever its size (zero/stage3.py). 3, 4, 4, 4 in 10 on 4 ranks:
    12 and 4 elements.
    """
    return _joined(((ceil_div(one, ranks) * ranks, one) for one in gradients), limit)


def _joined(gradients: Iterable[tuple[int, int]], limit: int) -> Sent:
    sent, padded, filled = NOTHING, 0, 0
    for size, gradient in gradients:
        if filled and filled + gradient > limit:
            sent, padded, filled = sent + Sent(padded, 1), 0, 0
        padded += size
        filled += gradient
    return sent + Sent(padded, 1) if filled else sent


def reduced_buckets(gradients: Iterable[int], limit: int, ranks: int) -> tuple[Sent, Sent]:
    """Stage 3 without reduce_scatter: buckets that are all-reduced, and gradients beyond one that are scattered.

    zero/stage3.py: __reduce_and_partition_ipg_grads asks for contiguous gradients that go into the bucket.
    """
    small, large = NOTHING, NOTHING
    filled = 0
    for gradient in gradients:
        if filled and filled + gradient > limit:
            small, filled = small + Sent(filled, 1), 0
        if gradient > limit:
            large += Sent(ceil_div(gradient, ranks) * ranks, 1)
        else:
            filled += gradient
    return (small + Sent(filled, 1) if filled else small), large


def pieces(buckets: Iterable[Sent]) -> Iterator[Sent]:
    """Those that send anything."""
    return (one for one in buckets if one.calls)
