"""What a smoke test measured: from the ranks' files to values, JSON, and a line of the measurements file."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zeroconf.smoke.measured import RankMeasurement, SentCollective

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from zeroconf.smoke.measured import SmokeResult
    from zeroconf.types import Moment

_OF_HARDWARE = ("step", "capacity_bytes", "verdict", "link", "seconds")
SCHEMA = "zeroconf/smoke-test/1"
MOMENTS: tuple[Moment, ...] = ("init", "forward", "backward", "step")


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The ranks' files that exist so far, by rank. They are replaced whole, so each is complete."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("rank-*.json")]
    return sorted(records, key=lambda record: int(record["rank"]))


def measurement(record: Mapping[str, Any]) -> RankMeasurement:
    """One rank's file as a value. A rank that failed has what it measured until then, zero for the rest."""
    sent = record.get("collectives")
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
        update_seconds=tuple(record.get("update_seconds", ())),
        losses=tuple(record.get("losses", ())),
        parts=record.get("parts"),
        collectives=None if sent is None else tuple(SentCollective(**one) for one in sent),
    )


def to_json(result: SmokeResult, predicted: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The ``--json`` object; ``predicted`` is an estimate that is already rendered.

    JSON has no NaN and no infinity: a diverged loss is null, as is any other number that is not finite.
    """
    values = {
        "schema": SCHEMA,
        "mode": result.mode,
        "outcome": result.outcome,
        "explanation": result.explanation,
        "cure": result.cure,
        "ranks": [_rank_json(rank) for rank in result.ranks],
        "predicted": None if predicted is None else _predicted_json(predicted, named_hardware=result.named_hardware),
        "relative_error": result.relative_error,
        "simulated_world_size": result.simulated_world_size,
        "substitutions": list(result.substitutions),
        "facts": dict(result.facts),
        "environment": dict(result.environment),
        "log_path": result.log_path,
        **({"tries": [asdict(one) for one in result.tries]} if result.tries else {}),
    }
    return {name: _finite(value) for name, value in values.items()}


def _finite(value: Any) -> Any:
    """The same, with null for each number in it that is not finite."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _predicted_json(estimate: Mapping[str, Any], *, named_hardware: bool) -> dict[str, Any]:
    """The estimate; without hardware to speak of, what rests on a card and its links is left out."""
    if named_hardware:
        return dict(estimate)
    kept = {name: value for name, value in estimate.items() if name not in _OF_HARDWARE}
    if "traffic" in kept:
        sent = [{k: v for k, v in one.items() if k not in _OF_HARDWARE} for one in kept["traffic"]["per_collective"]]
        kept["traffic"] = {**kept["traffic"], "per_collective": sent}
    return kept


def _rank_json(rank: RankMeasurement) -> dict[str, Any]:
    return asdict(rank) | {"bytes_sent": rank.bytes_sent}


def append_measurement(path: Path, result: SmokeResult, ds_config: Mapping[str, Any]) -> None:
    """Adds one JSON line, whole or not at all.

    Raises:
        OSError: the disk is full, or the file cannot be written.
    """
    values = to_json(result) | {"time": time.time(), "ds_config": dict(ds_config)}
    path.parent.mkdir(parents=True, exist_ok=True)
    line = (json.dumps(values) + "\n").encode()
    with path.open("ab+", buffering=0) as file:
        # a file system without locks: one write to a file opened for appending does not mix with others either
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(size - 1)
            # what a killed run began stays a line of its own
            line = line if file.read(1) == b"\n" else b"\n" + line
        try:
            written = file.write(line) or 0
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        if written < len(line):
            file.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
