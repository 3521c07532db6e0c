"""Which parameters stage 3 gathers, and when: DeepSpeed's coordinator over a trace.

DeepSpeed 0.19.8, zero/partitioned_param_coordinator.py. Its steady state: the trace is complete, and what is under the
persistence threshold was gathered by the optimizer step before (stage3.py: _post_step).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.estimate.quantizer import quantization_groups
from zeroconf.estimate.reductions import NOTHING, Sent
from zeroconf.estimate.trace import FETCH, FETCH_AGAIN, RELEASE_OWNER
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zeroconf.estimate.trace import Trace
    from zeroconf.estimate.tree import Parameter


# bytes of a quantized element and of its group's scale
_QUANTIZED, _SCALE = 1, 4


class Limits(NamedTuple):
    """Stage 3's limits, in elements."""

    max_live_parameters: int
    max_reuse_distance: int
    prefetch_bucket_size: int
    param_persistence_threshold: int


class Widths(NamedTuple):
    """Bytes of an element as it is gathered: a linear layer's, an adapter's, others; 1 for all where quantized."""

    linear: int
    adapter: int
    other: int

    def of(self, parameter: Parameter) -> int:
        """A parameter's."""
        if parameter.adapter:
            return self.adapter
        return self.linear if parameter.linear else self.other


class Gathered(NamedTuple):
    """What one micro step gathers, by bytes of an element.

    ``every`` without hpZ. With it ``first`` is over all ranks in the first micro step, ``again`` inside the groups, and
    ``later`` inside them in every other micro step: parameters that train lose their secondary shards in the optimizer
    step, others keep them. ``step`` is what the optimizer step gathers, each parameter by itself.
    """

    every: dict[int, Sent]
    first: dict[int, Sent]
    again: dict[int, Sent]
    later: dict[int, Sent]
    step: dict[int, Sent]


@dataclass(slots=True)
class _Tally:
    """Adds up gathers in a group of so many ranks: elements are padded for all ranks of the job."""

    sizes: list[int]
    widths: list[int]
    ranks: int
    sent: dict[int, Sent] = field(default_factory=dict)

    def add(self, call: Iterable[int]) -> None:
        """One gather: a call for each dtype (partition_parameters.py: _all_gather_coalesced)."""
        by_width: dict[int, int] = {}
        for one in call:
            by_width[self.widths[one]] = by_width.get(self.widths[one], 0) + self.sizes[one]
        for width, elements in by_width.items():
            self._sent(width, elements)
            if width == _QUANTIZED:
                self._sent(_SCALE, quantization_groups(elements // self.ranks) * self.ranks)

    def _sent(self, width: int, elements: int) -> None:
        before = self.sent.get(width, NOTHING)
        self.sent[width] = Sent(before.elements + elements, before.calls + 1)


@lru_cache(maxsize=256)
def gathered(
    trace: Trace, limits: Limits, widths: Widths, stored: Widths, ranks: int, group: int, *, accumulates: bool
) -> Gathered:
    """The gathers of one micro step in elements and calls, for hpZ in groups of ``group`` ranks.

    A tensor is padded to a multiple of the ranks (partition_parameters.py: _aligned_size). What has a secondary shard
    is gathered in a call of its own (__all_gather_params_). The optimizer step gathers in the dtypes ``stored``.
    """
    parameters = trace.parameters
    sizes = [ceil_div(one.elements, ranks) * ranks for one in parameters]
    bytes_of = [widths.of(one) for one in parameters]
    every, first = _Tally(sizes, bytes_of, ranks), _Tally(sizes, bytes_of, ranks)
    again, later = _Tally(sizes, bytes_of, group), _Tally(sizes, bytes_of, group)
    secondary = [not one.trains for one in parameters]
    for call in gathers(trace, limits, accumulates=accumulates):
        every.add(call)
        if group > 1:
            later.add(call)
            first.add(one for one in call if not secondary[one])
            again.add(one for one in call if secondary[one])
            for one in call:
                secondary[one] = True
    step = _Tally(sizes, [stored.of(one) for one in parameters], ranks)
    for one, parameter in enumerate(parameters):
        if parameter.elements <= limits.param_persistence_threshold:
            step.add((one,))
    return Gathered(every.sent, first.sent, again.sent, later.sent, step.sent)


def deepened(shallow: Gathered, deeper: Gathered, times: int) -> Gathered:
    """What ``times`` as many more blocks gather as ``deeper`` has beyond ``shallow``, whose own are in it."""
    return Gathered(*(_further(one, other, times) for one, other in zip(shallow, deeper, strict=True)))


def _further(one: dict[int, Sent], other: dict[int, Sent], times: int) -> dict[int, Sent]:
    return {
        width: Sent(*(a + times * (b - a) for a, b in zip(one.get(width, NOTHING), other[width], strict=True)))
        for width in other
    }


def gathers(trace: Trace, limits: Limits, *, accumulates: bool) -> list[tuple[int, ...]]:
    """Parameters of each gather of one micro step; ``accumulates`` where a step has several of them.

    Then the trace was complete before the first optimizer step, when the micro step that recorded it had released
    persistent parameters too, but for those that linger. What each release lets go is cached by module and position for
    good (``lru_cache`` of __params_to_release): the first micro step with a complete trace decides for all later ones.
    """
    threshold = limits.param_persistence_threshold
    persistent = frozenset(at for at, one in enumerate(trace.parameters) if one.elements <= threshold)
    decisions = None
    if accumulates and persistent:
        first = _Coordinator(trace, limits, persistent, None)
        first.run(persistent & trace.lingering)
        decisions = first.let_go
    coordinator = _Coordinator(trace, limits, persistent, decisions)
    coordinator.run(persistent)
    return coordinator.calls


def most_at_once(trace: Trace, limits: Limits, least_elements: int) -> int:
    """How many parameters of more elements, and than the persistence threshold, are whole at once, none prefetched."""
    threshold = max(limits.param_persistence_threshold, least_elements)
    small = frozenset(at for at, one in enumerate(trace.parameters) if one.elements <= threshold)
    coordinator = _Coordinator(trace, limits._replace(prefetch_bucket_size=0), small, None)
    coordinator.elements = [int(one.elements > threshold) for one in trace.parameters]
    coordinator.run(small)
    return coordinator.most_live


class _Coordinator:
    """One micro step.

    ``fetched_for`` is the last fetch that each parameter has left the queue of prefetching for, ``owned`` are frozen
    parameters that recomputation fetched, ``let_go`` what each release decided.
    """

    __slots__ = (
        *("ahead", "available", "calls", "decisions", "elements", "fetch", "fetched_for", "let_go"),
        *("limits", "live", "most_live", "owned", "persistent", "trace"),
    )

    def __init__(
        self, trace: Trace, limits: Limits, persistent: frozenset[int], decisions: list[tuple[int, ...]] | None
    ) -> None:
        self.trace, self.limits, self.persistent, self.decisions = trace, limits, persistent, decisions
        self.elements = [one.elements for one in trace.parameters]
        self.available = [False] * len(self.elements)
        self.fetched_for = [-1] * len(self.elements)
        self.calls: list[tuple[int, ...]] = []
        self.let_go: list[tuple[int, ...]] = []
        self.owned: set[int] = set()
        self.ahead = self.fetch = self.live = self.most_live = 0

    def run(self, gathered: frozenset[int]) -> None:
        """All events, from what is ``gathered``; the count of live parameters starts at 0 all the same."""
        for one in gathered:
            self.available[one] = True
        for kind, parameters in self.trace.events:
            if kind in (FETCH, FETCH_AGAIN):
                if parameters:
                    self._fetch(parameters)
                    if kind == FETCH_AGAIN:
                        self.owned.update(one for one in parameters if not self.trace.parameters[one].trains)
                self._prefetch()
                self.fetch += 1
            else:
                self._release(parameters, owner=kind == RELEASE_OWNER)

    def _gather(self, chosen: Iterable[int]) -> None:
        """In one call, what is not there."""
        missing = [one for one in chosen if not self.available[one]]
        if missing:
            self.calls.append(tuple(missing))
            for one in missing:
                self.available[one] = True
                self.live += self.elements[one]
            self.most_live = max(self.most_live, self.live)

    def _fetch(self, parameters: tuple[int, ...]) -> None:
        """What computes now; it leaves the queue, unless it was prefetched."""
        self._gather(parameters)
        for _ in range(sum(self.fetched_for[one] < self.fetch for one in parameters)):
            one, at = self.trace.queue[self.ahead]
            self.fetched_for[one] = at
            self.ahead += 1

    def _prefetch(self) -> None:
        """What computes next, until the bucket or the limit of live parameters has been passed."""
        room = min(self.limits.max_live_parameters - self.live, self.limits.prefetch_bucket_size)
        if room <= 0:
            return
        queue, taken, size = self.trace.queue, [], 0
        while size < room and self.ahead < len(queue):
            one, at = queue[self.ahead]
            self.ahead += 1
            self.fetched_for[one] = max(self.fetched_for[one], at)
            if not self.available[one] and one not in taken:
                taken.append(one)
                size += self.elements[one]
        if taken:
            self._gather(taken)

    def _release(self, parameters: tuple[int, ...], *, owner: bool) -> None:
        """What no later prefetch has skipped and is not used again soon; an owner's module lets go what it owned."""
        if self.decisions is None:
            decided = tuple(
                one
                for one in parameters
                if one not in self.persistent and self.fetched_for[one] <= self.fetch and not self._is_near(one)
            )
        else:
            decided = self.decisions[len(self.let_go)]
        self.let_go.append(decided)
        if owner:
            decided = (*decided, *(self.owned - self.persistent))
            self.owned.clear()
        for one in decided:
            if self.available[one] and one not in self.owned:
                self.available[one] = False
                self.live -= self.elements[one]

    def _is_near(self, parameter: int) -> bool:
        """Whether it is used again within the reuse distance."""
        trace = self.trace
        whole = parameter in trace.in_leaf
        uses, passed = (trace.whole_uses, trace.whole_passed) if whole else (trace.uses, trace.passed)
        at = bisect_left(uses[parameter], self.fetch)
        if at == len(uses[parameter]):
            return False
        return passed[uses[parameter][at]] - passed[self.fetch] < self.limits.max_reuse_distance
