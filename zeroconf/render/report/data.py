"""What the report's page draws: every figure, and as people read it, so that the page only lays it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.plan.reasons import title
from zeroconf.plan.search import TIE
from zeroconf.render.estimate_text import textbook_ignores
from zeroconf.render.legend import range_words, stage_words
from zeroconf.render.report.costs import PARTS, Json, Shared, kind_of, memory_json, size, time_json, traffic_json
from zeroconf.render.text import (
    OFFLOAD_WORDS,
    facts_rows,
    faster_words,
    files_for,
    short_reason,
    step_parts,
    value_words,
)
from zeroconf.units import gib, gigabits_per_second

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroconf.types import Candidate, Cure, Decision, Facts, Plan

_UNREJECTED: Final = (None, "slower")


class Own(NamedTuple):
    """A user's file: its name, its plan with what that costs in the given case, and the facts with what it says."""

    name: str
    candidate: Candidate
    facts: Facts


def report_json(decision: Decision, scenarios: Sequence[Decision], own: Own | None = None) -> Json:
    """The given decision and those of the scenarios, which it is one of.

    A figure is a pair: its value for drawing (GiB in memory, GB sent, or seconds) and its text. What many plans share,
    as the memory of one plan over several networks, stands once in ``shared``, and in its place its index there.
    """
    facts, shared = decision.facts, Shared()
    capacity = facts.cluster.gpu.memory_bytes
    comfortable = round(capacity * (1 - facts.workload.headroom))
    return {
        "facts": [*facts_rows(facts), ("Files", files_for(facts))],
        "gpu": facts.cluster.gpu.name,
        "model": facts.model.name,
        "capacity": size(capacity),
        "comfortable": [*size(comfortable), f"{1 - facts.workload.headroom:.0%}"],
        "range": range_words(facts),
        "tie": f"{TIE - 1:.0%}",
        "parts": PARTS,
        "spent": list(step_parts(decision.candidates[0].estimate.step)),
        "moments": list(decision.candidates[0].estimate.gpu.moments),
        "given": key_of(facts),
        "faster": faster_words(decision.faster_tight) if decision.faster_tight else "",
        "sentOf": _kinds(scenarios),
        "networks": _networks(scenarios),
        "sizes": _cluster_sizes(scenarios),
        "file": own.name if own else None,
        "scenarios": {key_of(one.facts): _scenario(one, shared, own if one is decision else None) for one in scenarios},
        "shared": shared.values,
        "notes": [
            *decision.notes,
            *([f"{own.name}: {note}" for note in own.facts.workload.assumptions] if own else []),
        ],
        "cures": [_cure(cure) for cure in decision.cures],
        "against": decision.cures[0].against if decision.cures else "",
    }


def key_of(facts: Facts) -> str:
    """``16 ib-ndr``; ``8`` on one node."""
    network = facts.cluster.network
    return f"{facts.cluster.num_gpus} {network.name}" if network else str(facts.cluster.num_gpus)


def _networks(scenarios: Sequence[Decision]) -> list[Json]:
    """Each once, slowest first."""
    links = {
        one.facts.cluster.network.name: one.facts.cluster.network for one in scenarios if one.facts.cluster.network
    }
    return [
        {"name": link.name, "rate": gigabits_per_second(link.bandwidth_bytes_per_second)} for link in links.values()
    ]


def _cluster_sizes(scenarios: Sequence[Decision]) -> list[Json]:
    clusters = {one.facts.cluster.num_gpus: one.facts.cluster for one in scenarios}
    return [
        {
            "gpus": number,
            "nodes": cluster.num_nodes,
            "words": f"{cluster.num_nodes} nodes of {cluster.gpus_per_node}" if cluster.num_nodes > 1 else "one node",
        }
        for number, cluster in clusters.items()
    ]


def _scenario(decision: Decision, shared: Shared, own: Own | None) -> Json:
    facts, ordered = decision.facts, decision.candidates
    ordered = tuple(sorted(ordered, key=lambda one: (one.plan.stage, ordered.index(one))))
    return {
        "batch": facts.workload.global_batch_size,
        "link": facts.cluster.network.name if facts.cluster.network else facts.cluster.intra_node.name,
        "tried": decision.num_searched,
        "chosen": ordered.index(decision.candidates[0]) if decision.chosen else None,
        "plans": [_plan(one, decision, ordered, shared) for one in ordered],
        "own": _plan(own.candidate, decision, [own.candidate], shared) if own else None,
        "reasons": [
            shared.index((reason.key, value_words(reason.value), reason.because)) for reason in decision.reasons
        ],
    }


def _plan(candidate: Candidate, decision: Decision, of_all: Sequence[Candidate], shared: Shared) -> Json:
    plan, cost = candidate.plan, candidate.estimate
    chosen = decision.chosen is not None and plan == decision.chosen.plan
    branch = "chosen" if chosen else _branch(candidate)
    same_kind = [one for one in of_all if (one.plan.stage, one.plan.offload) == (plan.stage, plan.offload)]
    return {
        "plan": shared.index(_words(plan, decision.facts)),
        # of plans of one stage and offload, with and without a secondary partition, the charts show this one
        "shown": candidate is min(same_kind, key=lambda one: _rank(one, decision)),
        "verdict": cost.verdict,
        "branch": branch,
        "short": "chosen" if chosen else short_reason(candidate, decision),
        # the figures and the traffic say the rest
        "because": candidate.because if branch in ("tight", "unsure") else "",
        "memory": shared.index(memory_json(cost)),
        "traffic": shared.index(traffic_json(cost, shared)),
        "time": time_json(cost, decision.facts),
    }


def _words(plan: Plan, facts: Facts) -> Json:
    return {
        "stage": plan.stage,
        "stageWords": stage_words(plan),
        "title": title(plan),
        "offload": plan.offload,
        "offloadWords": OFFLOAD_WORDS[plan.offload],
        "split": plan.split,
        "recompute": plan.activation_checkpointing,
        "textbookIgnores": textbook_ignores(plan, adapters=facts.workload.trainable_parameters is not None),
    }


def _rank(candidate: Candidate, decision: Decision) -> tuple[bool, bool, float]:
    """The chosen plan first, then what fits, then the fastest."""
    chosen = decision.chosen is not None and candidate.plan == decision.chosen.plan
    return not chosen, candidate.rejected_by not in _UNREJECTED, candidate.estimate.step.seconds_per_sample


def _branch(candidate: Candidate) -> str:
    """Where a candidate that was not chosen leaves the way to the decision."""
    if candidate.rejected_by is not None:
        return candidate.rejected_by
    return "tight" if candidate.estimate.verdict == "tight" else "unsure"


def _kinds(scenarios: Sequence[Decision]) -> list[str]:
    """What is sent in any of them, in the order of first sight."""
    estimates = (candidate.estimate for one in scenarios for candidate in one.candidates)
    return list(dict.fromkeys(kind_of(one) for cost in estimates for one in cost.traffic.per_collective))


def _cure(cure: Cure) -> Json:
    return {
        "option": cure.option,
        "title": cure.title,
        "fits": cure.fits,
        "gpu": gib(cure.gpu_bytes),
        "host": gib(cure.host_bytes),
        "cost": cure.cost,
    }
