"""Which parameters stage 3 gathers, and when: DeepSpeed's coordinator over a trace.

DeepSpeed 0.19.8, zero/partitioned_param_coordinator.py. Its steady state: the trace is complete, and what is under the
persistence threshold was gathered by the optimizer step before (stage3.py: _post_step).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.estimate.trace import FETCH, FETCH_AGAIN, RELEASE_OWNER

if TYPE_CHECKING:
    from zeroconf.estimate.trace import Trace


class Limits(NamedTuple):
    """Stage 3's limits, in elements."""

    max_live_parameters: int
    max_reuse_distance: int
    prefetch_bucket_size: int
    param_persistence_threshold: int


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

    Then the trace was complete before the first optimizer step, with all parameters partitioned.
    """
    decisions = Decisions([])
    persistent = frozenset(
        one
        for one, parameter in enumerate(trace.parameters)
        if parameter.elements <= limits.param_persistence_threshold
    )
    if accumulates and persistent:
        _micro_step(trace, limits, persistent, frozenset(), decisions)
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
