"""The candidates that can win: of plans that differ in their batch split alone, those with the largest micro batches.

With the same stage, offload, buckets and recomputation, a larger micro batch is never slower per sample, since stages 2
and 3 communicate once for each, and never less simple; and it needs more memory as long as gradients accumulate. So the
largest that is comfortable beats all smaller ones, and is found by bisection.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeroconf.estimate.estimate import estimate
from zeroconf.plan.candidates import plan_families
from zeroconf.plan.faults import fault
from zeroconf.plan.limits import broken
from zeroconf.types import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zeroconf.plan.candidates import Family
    from zeroconf.types import Estimate, Facts, Plan

# seconds per sample that differ by less are equal: the simpler plan is taken
TIE: Final = 1.03


def search(facts: Facts) -> Iterator[Candidate]:
    """Of each family the largest micro batches that are comfortable and that fit, or the smallest, which does not.

    Raises:
        InputError: the batch cannot be split over the GPUs.
    """
    for family in plan_families(facts):
        yield from _largest(facts, family)


def fits(facts: Facts) -> bool:
    """Whether any candidate fits.

    Raises:
        InputError: the batch cannot be split over the GPUs.
    """
    return any(candidate.rejected_by is None for candidate in search(facts))


def costed(facts: Facts, plan: Plan) -> Candidate:
    """A plan with its cost and the limit that it breaks."""
    return judged(facts, estimate(facts.model, facts.cluster, facts.workload, plan, facts.versions, facts.rates))


def trusted(facts: Facts, candidate: Candidate) -> Candidate:
    """The same, rejected where it fits and the release computes it wrongly."""
    wrong = fault(facts, candidate.plan) if candidate.rejected_by is None else ""
    return replace(candidate, rejected_by="release", because=wrong) if wrong else candidate


def judged(facts: Facts, cost: Estimate) -> Candidate:
    """What an estimate is of, with the first limit that it breaks."""
    exceeded = broken(cost, facts.cluster)
    return Candidate(plan=cost.plan, estimate=cost, rejected_by=exceeded[0].limit if exceeded else None)


def is_comfortable(candidate: Candidate) -> bool:
    """Whether it fits and leaves the headroom free."""
    return candidate.rejected_by is None and candidate.estimate.verdict == "comfortable"


def _largest(facts: Facts, family: Family) -> list[Candidate]:
    """The candidates that were looked at, in the family's order."""
    seen: dict[int, Candidate] = {}

    def at(index: int) -> Candidate:
        if index not in seen:
            seen[index] = costed(facts, family.plan(index))
        return seen[index]

    def last_that(good: Callable[[Candidate], bool]) -> None:
        at(bisect_left(range(num_accumulating), True, lo=1, key=lambda index: not good(at(index))) - 1)

    # one micro batch per step keeps no gradients between: it may fit where smaller ones do not
    if not is_comfortable(at(len(family.splits) - 1)) and at(0).rejected_by is None:
        num_accumulating = sum(steps > 1 for _, steps in family.splits)
        last_that(is_comfortable)
        last_that(lambda candidate: candidate.rejected_by is None)
    return [trusted(facts, seen[index]) for index in sorted(seen)]
