"""What would make it fit, when nothing does: each change tried, alone and together, with what it saves and costs."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from zeroconf.plan import changes
from zeroconf.plan.choose import cost_of_pins, decide, seconds_per_sample
from zeroconf.plan.limits import broken, limit_words, nearest, nearness, peak_words
from zeroconf.plan.notes import is_loading
from zeroconf.plan.reasons import title as plan_title
from zeroconf.plan.search import TIE, fits
from zeroconf.types import Candidate, Cure, Decision
from zeroconf.units import gib, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zeroconf.plan.changes import Change, Level
    from zeroconf.types import Estimate, Facts, NodeLimit

_LIMIT_WORDS: Final[dict[NodeLimit, str]] = {
    "gpu_memory": "on the GPU",
    "host_memory": "of host memory per node",
    "nvme": "on each node's NVMe",
}
# the pinned offload is left to the search, and named last
_TIME: Final[tuple[Change, ...]] = (
    changes.partition,
    changes.recompute,
    changes.fused_loss,
    changes.smaller_micro_batch,
    changes.half_precision,
)
_SAME_JOB: Final = (changes.offload, changes.less_offload, *_TIME, changes.eight_bit)
_HARDWARE: Final = (changes.host_memory, changes.nvme, changes.more_gpus)
_ADAPTERS: Final = (changes.lora, changes.packed)
# what costs only time first, then hardware, then what makes it another job
_ALONE: Final[tuple[Change, ...]] = (*_SAME_JOB, *_HARDWARE, changes.shorter_sequence, *_ADAPTERS)
# those of many levels, of which each needs less memory than the one before
_GRADUAL: Final = (changes.more_gpus, changes.shorter_sequence)
# worth naming only where they are enough
_ENOUGH_OR_NOTHING: Final = (*_GRADUAL, changes.less_offload)


def decide_with_cures(facts: Facts) -> Decision:
    """The search's outcome, with cures when nothing fits, else with what the pinned choices and LoRA's offload cost."""
    decision = decide(facts)
    if decision.chosen is None:
        return replace(decision, cures=find_cures(decision))
    return replace(decision, notes=(*decision.notes, *cost_of_pins(decision), *_instead_of_offload(decision)))


def _instead_of_offload(decision: Decision) -> tuple[str, ...]:
    """What adapters on packed weights would take, where the base was offloaded and that is slower."""
    facts, chosen = decision.facts, decision.chosen
    workload = facts.workload
    if chosen is None or chosen.plan.offload == "none" or workload.lora_rank is None or workload.quantize is not None:
        return ()
    for level in changes.packed(facts):
        other = decide(level.facts).chosen
        if other is not None and seconds_per_sample(other) * TIE < seconds_per_sample(chosen):
            options = " ".join(f"{option} {value}" for option, value in level.options.items())
            mine, its = (seconds(seconds_per_sample(one)) for one in (chosen, other))
            note = (
                f"4-bit base weights (QLoRA, {options}) would take {its} per sample instead of {mine}, at "
                f"{plan_title(other.plan)}: {peak_words(other.estimate)}, {other.estimate.verdict}"
            )
            return (note,)
    return ()


def find_cures(decision: Decision) -> tuple[Cure, ...]:
    """The cures: those that fit first, of these the ones that train the same weights, then from time to another job.

    Several together where none alone is enough; last what only brings the nearest plan nearer.
    """
    facts, before = decision.facts, nearest(decision.candidates, decision.facts)
    alone = {change: level for change in _ALONE if (level := _alone(facts, change)) is not None}
    tried = [(level, _cure(facts, before, level)) for level in alone.values()]
    enough = {change for change, (_, cure) in zip(alone, tried, strict=True) if cure and cure.fits}
    tried += [(level, _cure(facts, before, level)) for level in _combinations(facts, enough)]
    found = {cure.option: (level.adapters, cure) for level, cure in tried if cure}
    ranked = sorted(found.values(), key=lambda one: (not one[1].fits, one[0] and one[1].fits, _rank(one[1])))
    return tuple(cure for _, cure in ranked)


def cures_of_plan(facts: Facts, cost: Estimate) -> tuple[Cure, ...]:
    """What would make a given plan fit that does not: its buckets as ``generate`` sets them, else with other cures."""
    plan = cost.plan
    pinned = changes.with_workload(
        facts,
        zero_stage=plan.stage,
        offload=plan.offload,
        micro_batch_size=plan.micro_batch_size,
        gradient_accumulation_steps=None,
        activation_checkpointing="full" if plan.activation_checkpointing else "none",
    )
    given = Candidate(plan=plan, estimate=cost, rejected_by="gpu_memory")
    as_generated = changes.Level(
        {"(as in the file)": ""}, "buckets as generate sets them", "smaller buckets, more calls", pinned
    )
    own = _cure(facts, given, as_generated)
    if own and own.fits:
        return (own,)
    others = find_cures(Decision(facts=pinned, chosen=None, candidates=(given,), reasons=()))
    if own:
        # their plans have such buckets, too
        others = tuple(
            replace(cure, cost=f"{as_generated.title}; {cure.cost}")
            for cure in others
            if (cure.gpu_bytes, cure.host_bytes, cure.nvme_bytes) != (own.gpu_bytes, own.host_bytes, own.nvme_bytes)
        )
    return tuple(sorted([*([own] if own else []), *others], key=lambda cure: not cure.fits))


def _alone(facts: Facts, change: Change) -> Level | None:
    """The least level that is enough, else the most; None where the change cannot be made, or helps only in full."""
    levels = change(facts)
    if not levels:
        return None
    if change in _GRADUAL and fits(levels[-1].facts):
        return levels[bisect_left(levels, x=True, hi=len(levels) - 1, key=lambda level: fits(level.facts))]
    tried = () if change in _GRADUAL else levels
    most = None if change in _ENOUGH_OR_NOTHING else levels[-1]
    return next((level for level in tried if fits(level.facts)), most)


def _combinations(facts: Facts, enough: set[Change]) -> Iterable[Level]:
    """Several changes together where none of their kind is enough alone.

    On the same hardware, the same weights in shorter sequences, else adapters, with the longest sequences; then other
    hardware.
    """
    same = None
    if enough.isdisjoint((*_SAME_JOB, changes.shorter_sequence)):
        same = _together(facts, (*_TIME, changes.shorter_sequence))
        if same:
            yield same
        elif enough.isdisjoint(_ADAPTERS):
            tries = (_together(facts, (*_TIME, adapters, changes.shorter_sequence)) for adapters in _ADAPTERS)
            yield from [level for level in tries if level][:1]
    if same is None and enough <= set(_ADAPTERS):
        other = _together(facts, (*_TIME, changes.larger_card, changes.more_gpus))
        if other:
            yield other


def _together(facts: Facts, wanted: Sequence[Change]) -> Level | None:
    """The least of the changes that is enough; None when all of them are not. The last ones are given up first."""
    free = changes.with_workload(facts, offload=None)
    kept: dict[Change, int] = {}
    for change in wanted:
        kept[change] = len(change(_made(free, kept)[1]))
    if not fits(_made(free, kept)[1]):
        return None

    def is_enough(change: Change, number: int) -> bool:
        return fits(_made(free, kept | {change: number})[1])

    for change in reversed(wanted):
        kept[change] = bisect_left(range(kept[change]), x=True, key=partial(is_enough, change))
    made, changed = _made(facts, kept)
    if not fits(changed):
        levels = (*changes.offload(changed), *changes.less_offload(changed))
        offloaded = next((level for level in levels if fits(level.facts)), None)
        if offloaded is None:
            return None
        made.append(offloaded)
    return _as_one(made)


def _made(facts: Facts, kept: dict[Change, int]) -> tuple[list[Level], Facts]:
    """The changes at their levels (0 is none), each made on top of those before, and what comes of them."""
    made = []
    for change, number in kept.items():
        if number and (levels := change(facts)[:number]):
            made.append(levels[-1])
            facts = levels[-1].facts
    return made, facts


def _as_one(made: Sequence[Level]) -> Level | None:
    if not made:
        return None
    options: dict[str, object] = {}
    for level in made:
        options |= level.options
    title, cost = (", ".join(words) for words in zip(*((one.title, one.cost) for one in made), strict=True))
    return changes.Level(options, title, cost, made[-1].facts, any(one.adapters for one in made))


def _cure(facts: Facts, before: Candidate, level: Level) -> Cure | None:
    """The change with its figures; None when it neither fits nor brings anything nearer."""
    decision = decide(level.facts)
    after = decision.chosen or nearest(decision.candidates, level.facts)
    cost, cluster = after.estimate, level.facts.cluster
    if decision.chosen is None and nearness(cost, cluster) >= nearness(before.estimate, facts.cluster):
        return None
    saves, taken, _ = max(broken(before.estimate, facts.cluster), key=lambda need: need.share)
    takes: dict[NodeLimit, int] = {
        "gpu_memory": cost.gpu.peak_allocated_bytes,
        "host_memory": cost.host.peak_bytes,
        "nvme": cost.nvme_bytes,
    }
    return Cure(
        option=" ".join(f"{option} {value}".strip() for option, value in level.options.items()),
        title=level.title,
        saves=saves,
        saves_bytes=max(0, taken - takes[saves]),
        against=f"{plan_title(before.plan)}, which takes {gib(taken)} {_LIMIT_WORDS[saves]}",
        cost=f"{level.cost}; {_outcome(level.facts, after)}",
        fits=decision.chosen is not None,
        gpu_bytes=takes["gpu_memory"],
        host_bytes=takes["host_memory"],
        nvme_bytes=takes["nvme"],
    )


def _outcome(facts: Facts, after: Candidate) -> str:
    """The plan and its pace, or why it is still too much."""
    if after.rejected_by is None:
        return f"{plan_title(after.plan)}, {seconds(after.estimate.step.seconds_per_sample)} per sample"
    loading = ", as every GPU loads the whole packed model" if is_loading(after.estimate, facts) else ""
    return f"{plan_title(after.plan)} still {limit_words(after.estimate, facts)}{loading}"


def _rank(cure: Cure) -> int:
    """What does not fit by what it saves; what fits stays in order."""
    return 0 if cure.fits else -cure.saves_bytes
