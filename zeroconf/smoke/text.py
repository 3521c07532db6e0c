"""A smoke test's result for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zeroconf.estimate.wire import traffic_bytes
from zeroconf.inputs.text import printable
from zeroconf.smoke.result import MOMENTS
from zeroconf.units import GIB, MIB, counted, gigabytes, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroconf.smoke.measured import RankMeasurement, SmokeResult
    from zeroconf.types import Estimate, Moment


def to_text(result: SmokeResult) -> str:
    """A table of ranks, or of parts where they are known; what stood in the way, what was substituted."""
    lines = [*_tries(result), f"outcome: {result.outcome}{_how_it_went(result)}"]
    if "zero_stage" in result.environment:
        lines.append(_what_ran(result.environment, result.facts))
    if result.explanation:
        lines.append(result.explanation)
    if result.cure:
        lines.append(f"try: {result.cure}")
    if result.ranks and any(result.ranks[0].phases.values()):
        parts = result.ranks[0].parts
        shown = _table(result.ranks) if parts is None else _parts_table(result.ranks[0], parts, result.predicted)
        lines += ["", *shown, *_sent(result.ranks[0], result)]
    if result.predicted is not None and (result.relative_error is not None or not result.ranks):
        what = "the dry run's" if result.mode == "dry-run" else "the highest measured"
        lines += ["", _beside_prediction(result.predicted, result.relative_error, what)]
    if result.substitutions:
        lines += ["", "substituted:", *(f"  - {line}" for line in result.substitutions)]
    if result.log_path:
        lines += ["", f"log: {result.log_path}"]
    return "\n".join(printable(line) for line in lines)


def _tries(result: SmokeResult) -> list[str]:
    """Of several configurations what became of each, and what the last one wants of the script."""
    if not result.tries:
        return []
    lines = ["tried:"]
    for number, one in enumerate(result.tries, 1):
        why = f": {one.explanation}" if one.explanation else ""
        lines.append(f"  {number}. {one.title}: {one.outcome}{why}")
    first, last = result.tries[0], result.tries[-1]
    if last.outcome == "fits" and last.activation_checkpointing and not first.activation_checkpointing:
        lines.append("the script has to recompute activations: gradient_checkpointing, which no file can switch on")
    return [*lines, ""]


def _beside_prediction(predicted: Estimate, relative_error: float | None, measured: str) -> str:
    """The predicted peak, without context and NCCL, which PyTorch does not count, and how far it is off."""
    gpu = predicted.gpu
    counted = gpu.peak_allocated_bytes - gpu.peak.overhead
    size = f"{counted / GIB:.2f} GiB" if counted >= GIB else f"{counted / MIB:.2f} MiB"
    if relative_error is None:
        return f"predicted peak: {size} ({gpu.peak_moment})"
    side = "over" if relative_error > 0 else "under"
    return f"predicted peak: {size} ({gpu.peak_moment}), {abs(relative_error):.1%} {side} {measured}"


def _what_ran(environment: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The model's shape, and what DeepSpeed made of the file, so that a key it ignored shows."""
    stage, optimizer, micro, steps, ranks = (
        environment.get(name, "?")
        for name in ("zero_stage", "optimizer", "micro_batch_size", "gradient_accumulation_steps", "num_processes")
    )
    hosts = environment.get("hosts") or ()
    where = f" on {len(hosts)} hosts" if len(hosts) > 1 else ""
    # a program brings a model of its own
    name = facts.get("architecture", {}).get("name")
    shape = f"{name}, {facts['sequence_length']} tokens, " if name else ""
    fed = environment.get("fed_batch_size", micro)
    if fed != micro:  # of a program; what the engine's forward got, where that was seen
        micro = f"{micro} in the file" + (f" ({fed} fed)" if fed else "")
    split = f"micro batch {micro} x accumulation {steps} x {_ranks(ranks)}{where}"
    return f"ran as: {shape}stage {stage}, {optimizer}, {split}"


def _how_it_went(result: SmokeResult) -> str:
    """For a run that fits: the steps and the loss; and what comes next, where the loss does not speak against it."""
    losses = result.losses
    if result.outcome != "fits" or not losses:
        return ""
    started = f"on {_ranks(len(result.ranks))}"
    ranks = f"as rank 0 of {result.simulated_world_size}" if result.simulated_world_size else started
    steps = f"{counted(len(losses), 'optimizer step')} {ranks}"
    if len(losses) == 1:
        return f" ({steps}; the loss is {losses[0]:.3f})"
    if "script" in result.facts:  # its batches differ, and so may their losses
        return f" ({steps}; the loss went from {losses[0]:.3f} to {losses[-1]:.3f})"
    change = f"from {losses[0]:.3f} to {losses[-1]:.3f}"
    if losses[-1] >= losses[0]:
        return f" ({steps}; the loss did NOT fall, {change})"
    following = "the same on the job's GPUs" if result.ranks[0].device == "cpu" else "the launch line of the job"
    return f" ({steps}; the loss fell {change}); next: {following}"


def _ranks(number: object) -> str:
    return counted(number, "rank") if isinstance(number, int) else f"{number} ranks"


def _sent(rank: RankMeasurement, result: SmokeResult) -> list[str]:
    """What one rank sends in an optimizer step; nothing where it was not counted or is alone.

    Gloo, the CPU's backend, puts more on the wire than the rings of NCCL, which are counted.
    """
    if not rank.bytes_sent:
        return []
    kinds: Counter[str] = Counter()
    for one in rank.collectives or ():
        kinds[one.collective] += one.bytes
    parts = ", ".join(
        f"{kind} {gigabytes(size)}" for kind, size in kinds.most_common() if 100 * size >= rank.bytes_sent
    )
    predicted = result.predicted
    expected = f" (estimate {gigabytes(predicted.traffic.bytes_per_gpu_per_step)})" if predicted else ""
    lines = ["", f"sent by each rank per optimizer step: {gigabytes(rank.bytes_sent)}{expected}: {parts}"]
    if predicted and result.environment.get("backend") == "gloo":
        lines.append(
            f"  by gloo, whose reduce-scatter is an all-reduce: {gigabytes(traffic_bytes(predicted.traffic, 'gloo'))}"
        )
    return lines


def _table(ranks: Sequence[RankMeasurement]) -> list[str]:
    scale, unit = _unit(max(rank.peak_allocated_bytes for rank in ranks))
    header = ["rank", *(f"{moment} {unit}" for moment in MOMENTS), f"steady {unit}", f"host {unit}", "step", "loss"]
    rows = [header]
    for rank in ranks:
        sizes = [*(rank.phases[moment] for moment in MOMENTS), rank.steady_bytes, rank.host_peak_bytes]
        # the first step also warms up caches
        times = rank.step_seconds[1:] or rank.step_seconds
        step = seconds(sum(times) / len(times)) if times else "-"
        loss = " -> ".join(f"{one:.3f}" for one in (rank.losses[0], *rank.losses[1:][-1:])) if rank.losses else "-"
        rows.append([str(rank.rank), *(_size(size, scale) for size in sizes), step, loss])
    return _aligned(rows)


def _parts_table(
    rank: RankMeasurement, parts: Mapping[str, Mapping[str, int]], predicted: Estimate | None
) -> list[str]:
    """Each part at the peak of each phase, beside the estimate's; what lives on the host below."""
    scale, unit = _unit(rank.peak_allocated_bytes)
    moments = [moment for moment in MOMENTS if moment in parts]
    expected = {moment: _expected(predicted, moment) for moment in moments}
    names = dict.fromkeys(name for moment in moments for name in (*expected[moment], *parts[moment]))
    rows = [[f"{unit} (estimate)", *moments]]
    for name in sorted(names, key=lambda name: -max(parts[moment].get(name, 0) for moment in moments)):
        pairs = [(parts[moment].get(name, 0), expected[moment].get(name, 0)) for moment in moments]
        if any(pair != (0, 0) for pair in pairs):
            rows.append([name.replace("_", " "), *(_pair(*pair, scale) for pair in pairs)])
    totals = [(rank.phases[moment], sum(expected[moment].values())) for moment in moments]
    rows.append(["peak", *(_pair(*pair, scale) for pair in totals)])
    lines = _aligned(rows)
    host = f"host: {_size(rank.host_peak_bytes, scale)} {unit} a rank at most"
    pinned = f", {_size(rank.host_pinned_bytes or 0, scale)} pinned at the end" if rank.host_pinned_bytes else ""
    return [*lines, "", f"steady: {_size(rank.steady_bytes, scale)} {unit} between steps; {host}{pinned}"]


def _expected(predicted: Estimate | None, moment: Moment) -> dict[str, int]:
    """The estimate's parts at a moment, without what PyTorch does not count."""
    if predicted is None:
        return {}
    parts = asdict(predicted.gpu.moments[moment])
    del parts["overhead"]
    return parts


def _pair(measured: int, expected: int, scale: int) -> str:
    return f"{_size(measured, scale)} ({_size(expected, scale)})"


def _size(num_bytes: int, scale: int) -> str:
    return f"{num_bytes / scale:.2f}" if num_bytes else "-"


def _unit(largest: int) -> tuple[int, str]:
    return (GIB, "GiB") if largest >= GIB else (MIB, "MiB")


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
