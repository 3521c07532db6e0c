"""What a smoke test measured: from the ranks' files to values, JSON, text, and a line for calibration."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zeroconf.types import RankMeasurement
from zeroconf.units import GIB, MIB, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from zeroconf.types import Estimate, SmokeResult

SCHEMA = "zeroconf/smoke-test/1"
MOMENTS = ("init", "forward", "backward", "step")


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The ranks' files that exist so far, by rank. They are replaced whole, so each is complete."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("rank-*.json")]
    return sorted(records, key=lambda record: int(record["rank"]))


def measurement(record: Mapping[str, Any]) -> RankMeasurement:
    """One rank's file as a value. A rank that failed has what it measured until then, zero for the rest."""
    return RankMeasurement(
        rank=record["rank"],
        device=record.get("device", ""),
        phases={moment: record.get("phases", {}).get(moment, 0) for moment in MOMENTS},
        peak_allocated_bytes=record.get("peak_allocated_bytes", 0),
        peak_reserved_bytes=record.get("peak_reserved_bytes", 0),
        steady_bytes=record.get("steady_bytes", 0),
        host_peak_bytes=record.get("host", {}).get("peak_bytes", 0),
        host_pinned_bytes=record.get("host", {}).get("pinned_bytes"),
        step_seconds=tuple(record.get("step_seconds", ())),
        losses=tuple(record.get("losses", ())),
        parts=record.get("parts"),
    )


def to_json(result: SmokeResult, predicted: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The ``--json`` object; ``predicted`` is an estimate that is already rendered."""
    return {
        "schema": SCHEMA,
        "mode": result.mode,
        "outcome": result.outcome,
        "explanation": result.explanation,
        "cure": result.cure,
        "ranks": [_rank_json(rank) for rank in result.ranks],
        "predicted": None if predicted is None else dict(predicted),
        "relative_error": result.relative_error,
        "simulated_world_size": result.simulated_world_size,
        "substitutions": list(result.substitutions),
        "environment": dict(result.environment),
        "log_path": result.log_path,
    }


def _rank_json(rank: RankMeasurement) -> dict[str, Any]:
    values = asdict(rank)
    # JSON has no NaN: a diverged loss is null
    losses = [loss if abs(loss) < float("inf") else None for loss in rank.losses]
    return values | {"step_seconds": list(rank.step_seconds), "losses": losses}


def to_text(result: SmokeResult) -> str:
    """The result for people: a table of ranks, then what stood in the way and what was substituted."""
    lines = [f"outcome: {result.outcome}{_how_it_went(result)}"]
    if "zero_stage" in result.environment:
        lines.append(_what_ran(result.environment))
    if result.explanation:
        lines.append(result.explanation)
    if result.cure:
        lines.append(f"try: {result.cure}")
    if result.ranks:
        lines += ["", *_table(result.ranks)]
    if result.predicted is not None and result.relative_error is not None:
        lines += ["", _beside_prediction(result.predicted, result.relative_error)]
    if result.substitutions:
        lines += ["", "substituted:", *(f"  - {line}" for line in result.substitutions)]
    if result.log_path:
        lines += ["", f"log: {result.log_path}"]
    return "\n".join(lines)


def _beside_prediction(predicted: Estimate, relative_error: float) -> str:
    """The predicted peak, without the memory that PyTorch does not count, and how far it is off."""
    gpu = predicted.gpu
    counted = gpu.peak_allocated_bytes - gpu.peak.overhead
    size = f"{counted / GIB:.2f} GiB" if counted >= GIB else f"{counted / MIB:.2f} MiB"
    side = "over" if relative_error > 0 else "under"
    return f"predicted peak: {size} ({gpu.peak_moment}), {abs(relative_error):.1%} {side} the highest measured"


def _what_ran(environment: Mapping[str, Any]) -> str:
    """What DeepSpeed made of the file, so that a key it ignored shows."""
    stage, optimizer, micro, steps, ranks = (
        environment.get(name, "?")
        for name in ("zero_stage", "optimizer", "micro_batch_size", "gradient_accumulation_steps", "num_processes")
    )
    return f"ran as: stage {stage}, {optimizer}, micro batch {micro} x accumulation {steps} x {ranks} ranks"


def _how_it_went(result: SmokeResult) -> str:
    """For a run that fits: the steps and the loss, and what comes next."""
    losses = result.ranks[0].losses if result.ranks else ()
    if result.outcome != "fits" or not losses:
        return ""
    fell = "fell" if losses[-1] < losses[0] else "did NOT fall"
    steps = f"{len(losses)} optimizer steps on {len(result.ranks)} ranks"
    return f" ({steps}; the loss {fell} from {losses[0]:.3f} to {losses[-1]:.3f}); next: the launch line of the job"


def _table(ranks: Sequence[RankMeasurement]) -> list[str]:
    largest = max(rank.peak_allocated_bytes for rank in ranks)
    scale, unit = (GIB, "GiB") if largest >= GIB else (MIB, "MiB")
    header = ["rank", *(f"{moment} {unit}" for moment in MOMENTS), f"steady {unit}", f"host {unit}", "step", "loss"]
    rows = [header]
    for rank in ranks:
        sizes = [*(rank.phases[moment] for moment in MOMENTS), rank.steady_bytes, rank.host_peak_bytes]
        # the first step also warms up caches
        times = rank.step_seconds[1:] or rank.step_seconds
        step = seconds(sum(times) / len(times)) if times else "-"
        loss = f"{rank.losses[0]:.3f} -> {rank.losses[-1]:.3f}" if rank.losses else "-"
        rows.append([str(rank.rank), *(f"{size / scale:.2f}" if size else "-" for size in sizes), step, loss])
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def append_measurement(path: Path, result: SmokeResult, ds_config: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Adds one JSON line, whole or not at all, for later calibration.

    ``facts`` are the architecture and workload that the numbers belong to.
    """
    values = to_json(result) | {"time": time.time(), "ds_config": dict(ds_config), "facts": dict(facts)}
    path.parent.mkdir(parents=True, exist_ok=True)
    line = (json.dumps(values) + "\n").encode()
    # one write to a file opened for appending: lines of concurrent runs do not mix
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)
