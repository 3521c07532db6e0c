"""Which parameters stage 3 gathers, and when: DeepSpeed's coordinator over a trace.

DeepSpeed 0.19.8, zero/partitioned_param_coordinator.py. Its steady state: the trace is complete, and what is under the
persistence threshold was gathered by the optimizer step before (stage3.py: _post_step).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.estimate.reductions import NOTHING, Sent
from zeroconf.estimate.trace import FETCH, FETCH_AGAIN, RELEASE_OWNER
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zeroconf.estimate.trace import Parameter, Trace


# bytes of a quantized element and of its group's scale, and about how many elements a group has
_QUANTIZED, _SCALE, _GROUP_ELEMENTS = 1, 4, 8000


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
def quantization_groups(elements: int) -> int:
    """Groups that share a scale in a rank's part: about 8000 elements each (partition_parameters.py: CUDAQuantizer).

    Read in the source; it needs CUDA to run. 65,536 elements: 16 groups.
    """
    groups = max(1, ceil_div(elements, _GROUP_ELEMENTS))
    while groups < elements and elements % (8 * groups):
        groups += 1
    while elements and elements % (16 * groups) == 0 and elements / groups > _GROUP_ELEMENTS:
        groups *= 2
    return groups


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


@dataclass(slots=True)
class Decisions:
    """Which parameters each release lets go.

    DeepSpeed caches them by module and position for good (``lru_cache`` of __params_to_release), so that the first
    micro step with a complete trace decides for all later ones.
    """

    made: list[tuple[int, ...]]
    are_final: bool = False


def gathers(trace: Trace, limits: Limits, *, accumulates: bool) -> list[tuple[int, ...]]:
    """Parameters of each gather of one micro step; ``accumulates`` where a step has several of them.

    Then the trace was complete before the first optimizer step, when the micro step that recorded it had released
    persistent parameters too, but for those that linger.
    """
    decisions = Decisions([])
    persistent = frozenset(
        one
        for one, parameter in enumerate(trace.parameters)
        if parameter.elements <= limits.param_persistence_threshold
    )
    if accumulates and persistent:
        _micro_step(trace, limits, persistent, persistent & trace.lingering, decisions)
        decisions.are_final = True
    return _micro_step(trace, limits, persistent, persistent, decisions)


def _micro_step(
    trace: Trace, limits: Limits, persistent: frozenset[int], gathered: frozenset[int], decisions: Decisions
) -> list[tuple[int, ...]]:
    elements = [one.elements for one in trace.parameters]
    frozen = [not one.trains for one in trace.parameters]
    available = [one in gathered for one in range(len(elements))]
    fetched_for = [-1] * len(elements)
    queue, length, ahead = trace.queue, len(trace.queue), 0
    most, bucket = limits.max_live_parameters, limits.prefetch_bucket_size
    calls: list[tuple[int, ...]] = []
    owned: set[int] = set()
    live = fetch = releases = 0
    for kind, parameters in trace.events:
        if kind in (FETCH, FETCH_AGAIN):
            missing = tuple(one for one in parameters if not available[one])
            if missing:
                calls.append(missing)
                for one in missing:
                    available[one] = True
                    live += elements[one]
            if kind == FETCH_AGAIN:
                owned.update(one for one in parameters if frozen[one])
            # what computes leaves the queue, unless it was prefetched
            for _ in range(sum(fetched_for[one] < fetch for one in parameters)):
                one, fetched_for_at = queue[ahead]
                fetched_for[one] = fetched_for_at
                ahead += 1
            if bucket and ahead < length:
                room = min(most - live, bucket)
                taken = []
                size = 0
                while ahead < length and size < room:
                    one, at = queue[ahead]
                    ahead += 1
                    fetched_for[one] = max(fetched_for[one], at)
                    if not available[one]:
                        available[one] = True
                        taken.append(one)
                        size += elements[one]
                if taken:
                    calls.append(tuple(taken))
                    live += size
            fetch += 1
            continue
        if decisions.are_final:
            let_go = decisions.made[releases]
        else:
            let_go = tuple(
                one
                for one in parameters
                if one not in persistent
                and fetched_for[one] <= fetch
                and not _is_near(trace, one, fetch, limits.max_reuse_distance)
            )
            decisions.made.append(let_go)
        releases += 1
        going = [one for one in let_go if one not in owned]
        if kind == RELEASE_OWNER:
            # what recomputation gathered of frozen parameters goes with the module that it was for
            going = [*let_go, *(one for one in owned if one not in persistent)]
            owned.clear()
        for one in going:
            if available[one]:
                available[one] = False
                live -= elements[one]
    return calls


def _is_near(trace: Trace, parameter: int, fetch: int, distance: int) -> bool:
    """Whether it is used again within so many elements."""
    whole = parameter in trace.in_leaf
    uses, passed = (trace.whole_uses, trace.whole_passed) if whole else (trace.uses, trace.passed)
    at = bisect_left(uses[parameter], fetch)
    return at < len(uses[parameter]) and passed[uses[parameter][at]] - passed[fetch] < distance
