"""Decisions and estimates as the JSON of the published schemas (schemas/generate.schema.json, estimate.schema.json)."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from zeroconf.units import release_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroconf.plan.needed import GpusNeeded
    from zeroconf.types import Candidate, Change, Decision, Estimate, Facts, MemoryParts, Plan

Json = dict[str, Any]


def dumps(value: object) -> str:
    """JSON text, two spaces, with a final newline. UTF-8 holds it: a byte of a name that is none becomes ``?``."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace").decode() + "\n"


def facts_json(facts: Facts) -> Json:
    """The facts with their sources."""
    cluster = dataclasses.asdict(facts.cluster)
    cluster["num_gpus"] = facts.cluster.num_gpus
    return {
        "model": dataclasses.asdict(facts.model),
        "cluster": cluster,
        "workload": dataclasses.asdict(facts.workload),
        "for": facts.reader,
        "measured": facts.rates.measured or None,
        "versions": {
            "deepspeed": release_text(facts.versions.deepspeed),
            "accelerate": release_text(facts.versions.accelerate),
            "source": facts.versions.source,
        },
    }


def plan_json(plan: Plan) -> Json:
    """The plan's fields under their own names."""
    return dataclasses.asdict(plan)


def parts_json(parts: MemoryParts) -> Json:
    """Bytes by part."""
    return dataclasses.asdict(parts)


def estimate_json(estimate: Estimate) -> Json:
    """One estimate; bytes are per GPU (host and NVMe per node), seconds per optimizer step."""
    gpu, traffic = estimate.gpu, estimate.traffic
    return {
        "gpu": {
            **parts_json(gpu.peak),
            "peak_allocated_bytes": gpu.peak_allocated_bytes,
            "peak_reserved_bytes": gpu.peak_reserved_bytes,
            "peak_moment": gpu.peak_moment,
            "moments": {moment: parts.total for moment, parts in gpu.moments.items()},
            "textbook_bytes": gpu.textbook_bytes,
        },
        "host": {
            "pinned_bytes": estimate.host.pinned_bytes,
            "pageable_bytes": estimate.host.pageable_bytes,
            "peak_bytes": estimate.host.peak_bytes,
        },
        "nvme": {"bytes": estimate.nvme_bytes},
        "disk": {"checkpoint_bytes": estimate.checkpoint_bytes},
        "traffic": {
            "per_collective": [dataclasses.asdict(collective) for collective in traffic.per_collective],
            "bytes_per_gpu_per_step": traffic.bytes_per_gpu_per_step,
            "textbook_elements": traffic.textbook_elements,
            "transfers": [dataclasses.asdict(transfer) for transfer in traffic.transfers],
        },
        "step": dataclasses.asdict(estimate.step),
        "capacity_bytes": estimate.capacity_bytes,
        "verdict": estimate.verdict,
        "interval": {"low_bytes": gpu.low_bytes, "high_bytes": gpu.high_bytes},
    }


def candidate_json(candidate: Candidate) -> Json:
    """A candidate with the limit that rejected it."""
    return {
        "plan": plan_json(candidate.plan),
        "estimate": estimate_json(candidate.estimate),
        "rejected_by": candidate.rejected_by,
        "because": candidate.because,
    }


def decision_json(
    decision: Decision, files: Mapping[str, str], changes: Sequence[Change] = (), verified: str = ""
) -> Json:
    """The whole answer of ``generate``; ``plan`` is null when nothing fits, ``changes`` are those to a base file.

    ``verified`` is what trying the configuration showed, null where nobody did.
    """
    chosen = decision.chosen
    return {
        "schema": "zeroconf/generate/1",
        "facts": facts_json(decision.facts),
        "plan": plan_json(chosen.plan) if chosen else None,
        "verdict": chosen.estimate.verdict if chosen else "does-not-fit",
        "reasons": [dataclasses.asdict(reason) for reason in decision.reasons],
        "estimate": estimate_json(chosen.estimate) if chosen else None,
        "candidates": [candidate_json(candidate) for candidate in decision.candidates],
        "faster_tight": candidate_json(decision.faster_tight) if decision.faster_tight else None,
        "cures": [dataclasses.asdict(cure) for cure in decision.cures],
        "notes": list(decision.notes),
        "files": dict(files),
        "verified": verified or None,
        "changes": [dataclasses.asdict(change) for change in changes],
    }


def estimates_json(facts: Facts, estimates: Sequence[Estimate], *, one: bool) -> Json:
    """The answer of ``estimate``: one object for a file, ``stages`` for a table."""
    head = {"schema": "zeroconf/estimate/1", "facts": facts_json(facts)}
    if one:
        return {**head, "plan": plan_json(estimates[0].plan), **estimate_json(estimates[0])}
    return {**head, "stages": [{"plan": plan_json(e.plan), **estimate_json(e)} for e in estimates]}


def needed_json(facts: Facts, needed: Sequence[GpusNeeded]) -> Json:
    """How many GPUs each stage needs; ``num_gpus`` is null where no number is enough."""
    stages = [
        {
            "stage": entry.stage,
            "num_gpus": entry.num_gpus,
            "plan": plan_json(entry.candidate.plan) if entry.candidate else None,
            "estimate": estimate_json(entry.candidate.estimate) if entry.candidate else None,
        }
        for entry in needed
    ]
    return {"schema": "zeroconf/gpus-needed/1", "facts": facts_json(facts), "stages": stages}
