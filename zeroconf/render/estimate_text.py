"""Estimates for people: one plan moment by moment, or the plans of all stages side by side."""

from __future__ import annotations

import textwrap
from dataclasses import fields
from typing import TYPE_CHECKING, Final

import click

from zeroconf.plan.reasons import title, traffic_words
from zeroconf.render.legend import plans_legend, range_words, stage_words
from zeroconf.render.table import table
from zeroconf.render.text import (
    OFFLOAD_WORDS,
    WIDTH,
    cures_text,
    facts_text,
    speed_words,
    step_words,
    wrap_list,
)
from zeroconf.types import MemoryParts
from zeroconf.units import GIB, gib, gigabytes, release_text, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroconf.types import Cure, Estimate, Facts, Plan

_PARTS: Final = tuple(field.name for field in fields(MemoryParts))
_STATES: Final = ("parameters", "gradients", "optimizer_states")
# parts below this share of the peak are not named as a difference from the textbook
_NAMED_SHARE: Final = 0.02


def estimate_text(
    facts: Facts, estimates: Sequence[Estimate], cures: Sequence[Cure] = (), *, one: bool, alone: bool = False
) -> str:
    """``one`` plan part by part and moment by moment, or one column per plan; cures where nothing fits.

    ``alone`` is without what else there is to say: facts, textbook, notes.
    """
    body = _moments(facts, estimates[0]) if one else [_stages(facts, estimates)]
    blocks = body if alone else _with_notes(facts, estimates, body, one=one)
    if cures:
        heading = click.style("It does not fit." if one else "Nothing fits.", fg="red", bold=True)
        blocks = [*blocks, f"{heading} What would help, as options of zeroconf generate:\n{cures_text(cures)}"]
    return "\n\n".join(block for block in blocks if block)


def _with_notes(facts: Facts, estimates: Sequence[Estimate], body: list[str], *, one: bool) -> list[str]:
    """The body below its facts, and above textbook and notes."""
    adapters = facts.workload.trainable_parameters is not None
    reasons = [textbook_reason(cost, adapters=adapters) for cost in estimates]
    if not one:
        reasons = [f"stage {cost.plan.stage}: {reason}" for cost, reason in zip(estimates, reasons, strict=True)]
    plan = estimates[0].plan
    head = [
        facts_text(facts, recomputed=plan.activation_checkpointing if one else None),
        *([f"Plan      {title(plan)}, micro batch {plan.split} accumulation steps"] if one else []),
        f"Release   DeepSpeed {release_text(facts.versions.deepspeed)} ({facts.versions.source})",
    ]
    return [
        "\n".join(head),
        *body,
        wrap_list("Textbook (the ZeRO paper's formulas, arXiv 1910.02054) and real", reasons),
        wrap_list("Notes", [*facts.model.assumptions, *facts.cluster.assumptions, *facts.workload.assumptions]),
    ]


def largest_part(parts: MemoryParts) -> tuple[str, int]:
    """The name of the largest part, as people write it, and its bytes."""
    name = max(_PARTS, key=lambda part: getattr(parts, part))
    return _words(name), getattr(parts, name)


def textbook_reason(cost: Estimate, *, adapters: bool = False) -> str:
    """Why the peak is not the textbook's figure: states against states, then what the textbook leaves out."""
    peak = cost.gpu.peak
    states = sum(getattr(peak, part) for part in _STATES)
    others = {part: getattr(peak, part) for part in _PARTS if part not in _STATES}
    named = sorted((size, part) for part, size in others.items() if size >= _NAMED_SHARE * peak.total)
    extra = ", ".join(f"{_words(part)} {gib(size)}" for size, part in reversed(named))
    ignored = textbook_ignores(cost.plan, adapters=adapters)
    ignores = f"{ignored}; " if ignored else ""
    return (
        f"the textbook's {gib(cost.gpu.textbook_bytes)} count parameters, gradients and optimizer states only; "
        f"{ignores}at the peak ({cost.gpu.peak_moment}) these take {gib(states)}, and on top come "
        f"{extra or 'small parts'}"
    )


def textbook_ignores(plan: Plan, *, adapters: bool) -> str:
    """What of the plan the textbook's formulas do not count; empty where that is nothing."""
    unknown = [*(["offload"] if plan.offload != "none" else []), *(["adapters"] if adapters else [])]
    return f"it knows no {' and no '.join(unknown)}" if unknown else ""


def _words(part: str) -> str:
    return part.replace("_", " ")


def _moments(facts: Facts, cost: Estimate) -> list[str]:
    """A table of parts by moments, and a list of what follows from it."""
    gpu = cost.gpu
    header = ("", *gpu.moments)
    rows = [
        (_words(part), *(f"{getattr(parts, part) / GIB:.1f}" for parts in gpu.moments.values()))
        for part in _PARTS
        if any(getattr(parts, part) for parts in gpu.moments.values())
    ]
    rows.append(("GiB per GPU", *(f"{parts.total / GIB:.1f}" for parts in gpu.moments.values())))
    name, size = largest_part(gpu.peak)
    per_sample = f"{cost.step.seconds_per_sample:.3g} s per sample"
    summary = [
        ("peak", f"{gib(gpu.peak_allocated_bytes)} at {gpu.peak_moment}, {_interval(cost)} with the predicted error"),
        ("reserved", f"{gib(gpu.peak_reserved_bytes)} with what the allocator wastes"),
        ("largest part", f"{name}, {gib(size)}"),
        ("verdict", f"{cost.verdict}: the peak is {_share(cost)} of {gib(cost.capacity_bytes)}"),
        ("host", _host_words(cost)),
        *([("NVMe", f"{gib(cost.nvme_bytes)} per node")] if cost.nvme_bytes else []),
        ("checkpoint", f"{gib(cost.checkpoint_bytes)} on disk"),
        ("traffic", f"per GPU and step: {traffic_words(cost)}"),
        ("step", f"{step_words(cost, facts)}, {per_sample}, {speed_words(cost, facts)}"),
    ]
    lines = [_wrapped(key, text) for key, text in summary]
    return ["\n".join(table(header, rows, right=header[1:])), "\n".join(lines)]


def _host_words(cost: Estimate) -> str:
    host = cost.host
    if not host.pinned_bytes:
        return f"{gib(host.peak_bytes)} per node"
    return f"{gib(host.peak_bytes)} per node, {gib(host.pinned_bytes)} of it pinned (in blocks of powers of two)"


def _wrapped(key: str, text: str) -> str:
    indent = " " * 14
    return textwrap.fill(f"{key:<13} {text}", WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _interval(cost: Estimate) -> str:
    return f"{cost.gpu.low_bytes / GIB:.1f} to {cost.gpu.high_bytes / GIB:.1f}"


def _share(cost: Estimate) -> str:
    return f"{cost.gpu.peak_allocated_bytes / cost.capacity_bytes:.0%}"


def _stages(facts: Facts, estimates: Sequence[Estimate]) -> str:
    """Memory by part at the peak, textbook beside real, traffic and time, one column per plan."""
    header = ("per GPU", *(f"stage {stage_words(e.plan)}" for e in estimates))
    rows = [("offload", *(OFFLOAD_WORDS[e.plan.offload] for e in estimates))] if facts.workload.offload else []
    rows += [
        ("micro x steps", *(e.plan.split for e in estimates)),
        ("recompute", *("yes" if e.plan.activation_checkpointing else "no" for e in estimates)),
    ]
    rows += [(_words(part), *(gib(getattr(e.gpu.peak, part)) for e in estimates)) for part in _PARTS]
    rows += [
        ("peak", *(gib(e.gpu.peak_allocated_bytes) for e in estimates)),
        ("  at", *(e.gpu.peak_moment for e in estimates)),
        ("  between", *(_interval(e) for e in estimates)),
        ("  reserved", *(gib(e.gpu.peak_reserved_bytes) for e in estimates)),
        ("  most of it", *(largest_part(e.gpu.peak)[0] for e in estimates)),
        ("textbook", *(gib(e.gpu.textbook_bytes) for e in estimates)),
        ("verdict", *(e.verdict for e in estimates)),
        ("  of the card", *(_share(e) for e in estimates)),
        ("host per node", *(gib(e.host.peak_bytes) for e in estimates)),
        ("sent per step", *(gigabytes(e.traffic.bytes_per_gpu_per_step) for e in estimates)),
        ("step", *(seconds(e.step.total_seconds) for e in estimates)),
        ("  between", *(f"{seconds(e.step.low_seconds)} to {seconds(e.step.high_seconds)}" for e in estimates)),
        ("s/sample", *(f"{e.step.seconds_per_sample:.3g}" for e in estimates)),
        ("tokens/s per GPU", *(f"{e.step.tokens_per_second_per_gpu:,.0f}" for e in estimates)),
    ]
    if (number := facts.cluster.num_gpus) > 1:
        rows.append(("tokens/s in all", *(f"{e.step.tokens_per_second_per_gpu * number:,.0f}" for e in estimates)))
    legend = f"{plans_legend([e.plan for e in estimates])}; step, between: {range_words(facts)}"
    return "\n".join([*table(header, rows, right=header[1:]), textwrap.fill(legend, WIDTH)])
