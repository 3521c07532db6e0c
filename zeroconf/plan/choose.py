"""The decision: what fits comfortably, then the fastest per sample, then the simplest within 3 percent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeroconf.plan.buckets import DEEPSPEED_LIVE
from zeroconf.plan.candidates import OFFLOAD_LEVELS
from zeroconf.plan.limits import nearest, node_words, peak_words
from zeroconf.plan.notes import notes
from zeroconf.plan.reasons import reasons, rejection, title, traffic_words
from zeroconf.plan.search import TIE, is_comfortable, search
from zeroconf.types import Candidate, Decision
from zeroconf.units import seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zeroconf.types import Estimate, Facts, Plan

# how much faster a plan must be on a slow host for its parameters to leave the card
PARAMETER_GAIN: Final = 1.2
# what the options for a tight plan leave free: the predicted error does the rest
TIGHT_HEADROOM: Final = 0.02


def decide(facts: Facts) -> Decision:
    """The best plan and, per stage and offload, the best alternative with the reason against it.

    ``chosen`` is None when nothing fits; ``cures`` are found by ``zeroconf.plan.cures``.

    Raises:
        InputError: the batch cannot be split over the GPUs.
    """
    searched = list(search(facts))
    fitting = [candidate for candidate in searched if candidate.rejected_by is None]
    # what is only wrong in this release comes last, with the linter's warning beside it
    wrong = [replace(one, rejected_by=None, because="") for one in searched if one.rejected_by == "release"]
    chosen = first_choice(fitting or wrong)
    shown = _best_of_each_kind(facts, searched, chosen)
    return Decision(
        facts=facts,
        chosen=chosen,
        candidates=tuple(rejection(candidate, chosen, facts) for candidate in shown),
        reasons=reasons(facts, chosen, shown, searched) if chosen else (),
        faster_tight=_faster_tight(facts, fitting, chosen),
        notes=notes(facts, chosen, searched),
        num_searched=len(searched),
    )


def beyond_node(facts: Facts, cost: Estimate) -> str:
    """What a plan that goes on the card needs of its node's host memory or NVMe beyond what is there; else empty."""
    return node_words(cost, facts) if cost.verdict != "does-not-fit" else ""


def seconds_per_sample(candidate: Candidate) -> float:
    """What candidates are ranked by."""
    return candidate.estimate.step.seconds_per_sample


def simplicity(plan: Plan) -> tuple[int, ...]:
    """Smaller is simpler: lower stage, no offload, fewer keys, no recomputation, fewer micro steps."""
    return (
        plan.stage,
        OFFLOAD_LEVELS.index(plan.offload),
        plan.zero_hpz_partition_size > 1,
        plan.activation_checkpointing,
        not plan.multi_rank_bucket_allreduce,
        plan.max_live_parameters != DEEPSPEED_LIVE,
        plan.gradient_accumulation_steps,
    )


def first_choice(fitting: list[Candidate]) -> Candidate | None:
    """The best comfortable plan, a tight one last; one that offloads only where it is faster on a slow host too.

    Parameters leave the card only for a clear gain there: their speed differs several times between published runs, so
    that a little less time as predicted is worth less than weights that stay.
    """
    comfortable = [candidate for candidate in fitting if is_comfortable(candidate)]
    pool = comfortable or fitting
    on_card = [candidate for candidate in pool if candidate.plan.offload_param == "none"]
    chosen = best_of(candidate for candidate in on_card if candidate.plan.offload == "none")
    for group, gain in ((on_card, 1.0), (pool, PARAMETER_GAIN)):
        best = best_of(group)
        if chosen is None or (best is not None and gain * _slow_seconds(best) < _slow_seconds(chosen)):
            chosen = best
    return chosen


def _slow_seconds(candidate: Candidate) -> float:
    """Seconds per sample at the high end of the band."""
    step = candidate.estimate.step
    return step.seconds_per_sample * step.high_seconds / step.total_seconds


def best_of(candidates: Iterable[Candidate]) -> Candidate | None:
    """The simplest of those within 3 percent of the fastest per sample; None of none."""
    pool = list(candidates)
    if not pool:
        return None
    fastest = min(map(seconds_per_sample, pool))
    near = [candidate for candidate in pool if seconds_per_sample(candidate) <= fastest * TIE]
    return min(near, key=lambda candidate: (simplicity(candidate.plan), seconds_per_sample(candidate)))


def _kind(plan: Plan) -> tuple[int, int, bool]:
    return plan.stage, OFFLOAD_LEVELS.index(plan.offload), plan.zero_hpz_partition_size > 1


def _best_of_each_kind(facts: Facts, searched: list[Candidate], chosen: Candidate | None) -> list[Candidate]:
    """The chosen one first; then per stage, offload and hpZ the best: comfortable, tight, nearest to fitting."""
    kinds: dict[tuple[int, int, bool], list[Candidate]] = {}
    for candidate in searched:
        kinds.setdefault(_kind(candidate.plan), []).append(candidate)
    best = []
    for kind in sorted(kinds):
        if chosen is not None and kind == _kind(chosen.plan):
            continue
        group = kinds[kind]
        fitting = [candidate for candidate in group if candidate.rejected_by in (None, "release")]
        comfortable = [candidate for candidate in fitting if candidate.estimate.verdict == "comfortable"]
        best.append(best_of(comfortable or fitting) or nearest(group, facts))
    return ([chosen] if chosen else []) + best


def _faster_tight(facts: Facts, fitting: list[Candidate], chosen: Candidate | None) -> Candidate | None:
    """The fastest tight plan, as the options that ask for it give it (``tight_options``); None if it gains nothing."""
    if chosen is None or chosen.estimate.verdict == "tight":
        return None
    tight = best_of(candidate for candidate in fitting if candidate.estimate.verdict == "tight")
    if tight is None or seconds_per_sample(tight) * TIE >= seconds_per_sample(chosen):
        return None
    pinned = replace(
        facts.workload,
        zero_stage=tight.plan.stage,
        offload=tight.plan.offload,
        micro_batch_size=tight.plan.micro_batch_size,
        activation_checkpointing="full" if tight.plan.activation_checkpointing else "none",
        headroom=TIGHT_HEADROOM,
    )
    again = replace(facts, workload=pinned)
    asked = first_choice([candidate for candidate in search(again) if candidate.rejected_by is None])
    if asked is None or seconds_per_sample(asked) * TIE >= seconds_per_sample(chosen):
        return None
    return replace(asked, because=f"{seconds_per_sample(chosen) / seconds_per_sample(asked):.2f}x as fast")


def cost_of_pins(decision: Decision) -> tuple[str, ...]:
    """What a pinned stage or offload costs against the free choice; nothing when it costs nothing."""
    facts, chosen = decision.facts, decision.chosen
    workload = facts.workload
    if chosen is None or (workload.zero_stage is None and workload.offload is None):
        return ()
    free = decide(replace(facts, workload=replace(workload, zero_stage=None, offload=None))).chosen
    if free is None or free.plan == chosen.plan:
        return ()
    mine, best = seconds_per_sample(chosen), seconds_per_sample(free)
    if mine <= best * TIE and simplicity(chosen.plan) <= simplicity(free.plan):
        return ()
    note = (
        f"{title(chosen.plan)} was asked for and takes {seconds(mine)} per sample; {title(free.plan)} would be chosen: "
        f"{seconds(best)} per sample, {peak_words(free.estimate)}"
    )
    return (f"{note}; what was asked for sends {traffic_words(chosen.estimate)}",)
