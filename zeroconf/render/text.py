"""Decisions and estimates for people."""

from __future__ import annotations

import json
import textwrap
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from zeroconf.plan.choose import TIGHT_HEADROOM
from zeroconf.plan.limits import broken, error_words, node_words, peak_words
from zeroconf.plan.reasons import WITHIN_TIE, title, traffic_words
from zeroconf.plan.search import TIE
from zeroconf.render.command import generate_command
from zeroconf.render.legend import plans_legend, range_words, recompute_words, stage_words
from zeroconf.render.table import table
from zeroconf.units import count, gib, gigabits_per_second, release_text, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroconf.types import Candidate, Change, Cure, Decision, Estimate, Facts, Link, StepTime

WIDTH = 110
OFFLOAD_WORDS = {"none": "-", "optimizer": "optimizer: CPU", "all": "all: CPU", "nvme": "optimizer: NVMe"}
_VERDICT_COLOUR = {"comfortable": "green", "tight": "yellow"}
_SAVED_WORDS = {"gpu_memory": "GPU", "host_memory": "host", "nvme": "NVMe"}
_HOST_LIMITS = {"host_memory": "host memory", "nvme": "NVMe"}


def facts_text(facts: Facts, *, recomputed: bool | None = None) -> str:
    """One paragraph: model, cluster, links, workload; ``recomputed`` None where the plans differ in it."""
    lines = {label: f"{label:<10}{text}" for label, text in facts_rows(facts, recomputed=recomputed)}
    if told := lines.get("Measured"):
        lines["Measured"] = textwrap.fill(told, WIDTH, subsequent_indent=" " * 10, break_on_hyphens=False)
    return "\n".join(lines.values())


def facts_rows(facts: Facts, *, recomputed: bool | None = None) -> list[tuple[str, str]]:
    """The same as labels with texts."""
    model, cluster, workload = facts.model, facts.cluster, facts.workload
    links = f"{_link_words(cluster.intra_node)} in a node"
    if cluster.network:
        links += f", {_link_words(cluster.network)} between"
    if cluster.num_gpus == 1:
        links = "one GPU"
    shape = f"{count(model.num_parameters)} parameters, {model.num_layers} layers, width {model.hidden_size}"
    optimizer = (facts.given.optimizer_variant if facts.given else None) or workload.optimizer
    run = f"{workload.precision}, {optimizer}, {workload.attention} attention"
    if workload.cross_entropy != "torch":
        run += f", {workload.cross_entropy} cross-entropy"
    if workload.sequence_parallel_size > 1:
        run += f", {workload.sequence_parallel_size} ranks to a sequence"
    if workload.tensor_parallel_size > 1:
        run += f", tensor parallel over {workload.tensor_parallel_size}"
    if recomputed is None and workload.activation_checkpointing != "auto":
        recomputed = workload.activation_checkpointing == "full"
    if recomputed is not None:
        run += f", {recompute_words(recomputed=recomputed)}"
    size = f"{cluster.num_nodes} x {cluster.gpus_per_node}" if cluster.num_nodes > 1 else str(cluster.gpus_per_node)
    hardware = f"{size} x {cluster.gpu.name}, {gib(cluster.gpu.memory_bytes)} usable ({links})"
    return [
        ("Model", f"{model.name} ({shape})"),
        ("Hardware", hardware),
        ("Workload", f"{workload.sequence_length} tokens, global batch {workload.global_batch_size}, {run}"),
        *([("Measured", facts.rates.measured)] if facts.rates.measured else []),
    ]


def _link_words(link: Link) -> str:
    """``nvlink3 1,880 Gb/s``; once where the link is named by its rate."""
    rate = gigabits_per_second(link.bandwidth_bytes_per_second)
    return rate if link.name == rate else f"{link.name} {rate}"


def decision_text(decision: Decision, given: Mapping[str, str | None] = MappingProxyType({})) -> str:
    """Facts, the table of candidates, why the winner won, notes; or the cures when nothing fits.

    ``given`` are the options that the command for a faster tight plan repeats.
    """
    chosen = decision.chosen
    head = f"{facts_text(decision.facts)}\nFiles     {files_for(decision.facts)}"
    blocks = [head, candidates_text(decision)]
    if chosen is None:
        blocks.append(click.style("Nothing fits.", fg="red", bold=True) + " What would help:")
        blocks.append(cures_text(decision.cures))
    else:
        if decision.faster_tight is not None:
            blocks.append(_faster_text(decision.faster_tight, given))
        blocks.append(_why_text(decision))
    blocks.append(wrap_list("Notes", decision.notes))
    return "\n\n".join(block for block in blocks if block)


def plan_text(decision: Decision) -> str:
    """The answer alone: the table of candidates, or the cures when nothing fits."""
    return candidates_text(decision) if decision.chosen else cures_text(decision.cures)


def files_for(facts: Facts) -> str:
    """Who reads the files, and the releases that they are written for."""
    deepspeed, accelerate = release_text(facts.versions.deepspeed), release_text(facts.versions.accelerate)
    reader = {"trainer": "the Trainer", "accelerate": "Accelerate", "deepspeed": "plain DeepSpeed"}[facts.reader]
    return f"for {reader}, DeepSpeed {deepspeed}, Accelerate {accelerate} ({facts.versions.source})"


def candidates_text(decision: Decision) -> str:
    """The best plan per stage and offload; the chosen one is marked."""
    candidates, chosen = decision.candidates, decision.chosen
    header = ("", "stage", "offload", "micro x steps", "recompute", "GPU peak", "verdict", "s/sample", "")
    rows = []
    ordered = sorted(candidates, key=lambda candidate: (candidate.plan.stage, candidates.index(candidate)))
    for candidate in ordered:
        plan, cost = candidate.plan, candidate.estimate
        mark = ">" if chosen is not None and plan == chosen.plan else ""
        because = "chosen" if mark else short_reason(candidate, decision)
        rows.append(
            (
                mark,
                stage_words(plan),
                OFFLOAD_WORDS[plan.offload],
                plan.split,
                "yes" if plan.activation_checkpointing else "no",
                gib(cost.gpu.peak_allocated_bytes),
                _HOST_LIMITS.get(candidate.rejected_by or "", cost.verdict),
                "" if candidate.rejected_by in _SAVED_WORDS else f"{cost.step.seconds_per_sample:.3g}",
                because,
            )
        )
    lines = table(header, rows, right=("GPU peak", "s/sample"))
    coloured = [_coloured(line, row) for line, row in zip(lines[1:], rows, strict=True)]
    legend = textwrap.fill(plans_legend([candidate.plan for candidate in ordered]), WIDTH)
    return "\n".join([click.style(lines[0], bold=True), *coloured, legend])


def short_reason(candidate: Candidate, decision: Decision) -> str:
    """The reason against a candidate in a few words; the verdict column already says what the card does not hold."""
    chosen = decision.chosen
    if candidate.rejected_by == "release":
        return candidate.because
    if candidate.rejected_by == "gpu_memory":
        node = [need for need in broken(candidate.estimate, decision.facts.cluster) if need.limit in _HOST_LIMITS]
        words = [f"also needs {gib(need.needed_bytes)} of {_HOST_LIMITS[need.limit]}" for need in node]
        return ", ".join(filter(None, [error_words(candidate.estimate), *words]))
    if chosen is None or candidate.rejected_by in _HOST_LIMITS:
        return node_words(candidate.estimate, decision.facts)
    ratio = candidate.estimate.step.seconds_per_sample / chosen.estimate.step.seconds_per_sample
    return f"{ratio:.2f}x the time{_unsure(candidate, chosen, ratio) if ratio < 1 else ''}"


def _unsure(candidate: Candidate, chosen: Candidate, ratio: float) -> str:
    """Why a faster plan was not chosen: what offload may cost, or that the chosen one is simpler."""
    if candidate.plan.offload_param != "none":
        return ", but unsure: published speeds differ"
    slowest = [one.estimate.step.high_seconds for one in (candidate, chosen)]
    offloads = candidate.plan.offload != "none" and chosen.plan.offload == "none"
    if offloads and slowest[0] > slowest[1]:
        return ", but longer on a slow host"
    is_tie = candidate.estimate.verdict == chosen.estimate.verdict and ratio * TIE >= 1 > round(ratio, 2)
    return f", but {WITHIN_TIE}" if is_tie else ""


def _coloured(line: str, row: Sequence[str]) -> str:
    return click.style(line, fg=_VERDICT_COLOUR.get(row[6], "red"), bold=bool(row[0]))


def _why_text(decision: Decision) -> str:
    chosen = decision.chosen
    if chosen is None:
        return ""
    lines = [f"{reason.key} = {value_words(reason.value)}: {reason.because}" for reason in decision.reasons]
    cost = chosen.estimate
    parts = {name: part for name, part in step_parts(cost.step).items() if 1000 * part >= cost.step.total_seconds}
    together = " + ".join(f"{name} {seconds(part)}" for name, part in parts.items())
    lines.append(f"one step: {step_words(cost, decision.facts)} = {together}; {speed_words(cost, decision.facts)}")
    lines.append(
        f"sent per GPU and step: {traffic_words(cost)}; a checkpoint takes {gib(cost.checkpoint_bytes)} on disk"
    )
    return wrap_list("Why", lines)


def step_parts(step: StepTime) -> dict[str, float]:
    """What the seconds of a step are spent on; of communication what computing does not hide."""
    return {
        "compute": step.compute_seconds,
        "host": step.host_seconds,
        "communication": step.exposed_communication_seconds,
        "offload": step.offload_seconds,
        "optimizer": step.optimizer_seconds,
    }


def step_words(cost: Estimate, facts: Facts) -> str:
    """``63.4 s (59.6 s to 120 s; 9 of 10 published runs lie in such a range)``."""
    step = cost.step
    ends = f"{seconds(step.low_seconds)} to {seconds(step.high_seconds)}"
    return f"{seconds(step.total_seconds)} ({ends}; {range_words(facts)})"


def speed_words(cost: Estimate, facts: Facts) -> str:
    """``517 tokens/s per GPU, 8,269 in all``."""
    each, number = cost.step.tokens_per_second_per_gpu, facts.cluster.num_gpus
    return f"{each:,.0f} tokens/s per GPU" + (f", {each * number:,.0f} in all" if number > 1 else "")


def _faster_text(candidate: Candidate, given: Mapping[str, str | None]) -> str:
    """What the headroom costs, with the command that gives it up."""
    plan = candidate.plan
    changes = {
        "--zero-stage": str(plan.stage),
        "--offload": plan.offload,
        "--micro-batch-size": str(plan.micro_batch_size),
        "--activation-checkpointing": "full" if plan.activation_checkpointing else "none",
        "--headroom": str(TIGHT_HEADROOM),
    }
    label, colon, text = textwrap.fill(f"{faster_words(candidate)}:", WIDTH).partition(":")
    return f"{click.style(label + colon, bold=True)}{text}\n  {generate_command(given, changes)}"


def faster_words(candidate: Candidate) -> str:
    """The faster tight plan in one sentence, without its full stop."""
    told = f"{title(candidate.plan)}, {candidate.because}, {peak_words(candidate.estimate)}"
    return f"Faster but tight: {told}; verify it with zeroconf smoke-test"


def value_words(value: object) -> str:
    """As JSON and shells write it: ``true``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def cures_text(cures: Sequence[Cure]) -> str:
    """Ranked cures with what each needs, saves and costs, and against which plan it saves that."""
    if not cures:
        return "nothing that is known here"
    with_disk = any(cure.nvme_bytes for cure in cures)
    header = ("with", "outcome", "GPU peak", "host memory", *(["NVMe"] if with_disk else []), "saves", "at the cost of")
    rows = [
        (
            cure.option,
            "fits" if cure.fits else "not enough alone",
            gib(cure.gpu_bytes),
            gib(cure.host_bytes),
            *([gib(cure.nvme_bytes) if cure.nvme_bytes else "-"] if with_disk else []),
            _saved(cure),
            cure.cost,
        )
        for cure in cures
    ]
    against = f"GPU peak for each GPU, host memory and NVMe for each node; saved against {cures[0].against}."
    right = ("GPU peak", "host memory", "NVMe", "saves")
    return "\n".join([*table(header, rows, right=right), textwrap.fill(against, WIDTH)])


def _saved(cure: Cure) -> str:
    """Empty for what saves nothing of the limit that refused: it gives more of it, or another plan room."""
    if not cure.saves_bytes:
        return ""
    return f"{gib(cure.saves_bytes)} {_SAVED_WORDS[cure.saves]}"


def wrap_list(title: str, lines: Sequence[str]) -> str:
    """A title over its lines, one wrapped bullet each; nothing without lines."""
    if not lines:
        return ""
    fill = textwrap.TextWrapper(WIDTH, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False).fill
    wrapped = [fill(line) for line in lines]
    return "\n".join([click.style(title, bold=True), *wrapped])


def changes_text(changes: Sequence[Change]) -> str:
    """What a base file had and has, key by key; nothing without changes."""
    if not changes:
        return ""
    rows = [
        (
            change.key,
            "" if change.kind == "added" else json.dumps(change.before),
            "removed" if change.kind == "removed" else json.dumps(change.after),
        )
        for change in changes
    ]
    header, *lines = table(("key", "base", "now"), rows)
    return "\n".join([click.style("Changes to the base file", bold=True), header, *lines])


def files_text(files: Sequence[str], commands: Mapping[str, str], smoke_test: str, dry_run: str) -> str:
    """What was written, how to try it on the target, and how to launch it."""
    lines = [click.style("Wrote ", bold=True) + ", ".join(files)] if files else []
    if files and smoke_test:
        lines.append(click.style("Try on the target: ", bold=True) + smoke_test)
    if files and dry_run:
        lines.append(click.style("Try without a GPU: ", bold=True) + dry_run)
    if commands:
        lines.append(click.style("Launch (one of)", bold=True))
        lines += [f"  {command}" for command in commands.values()]
    return "\n".join(lines)
