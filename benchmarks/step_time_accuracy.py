"""Predicted against published step times: ``python benchmarks/step_time_accuracy.py [--page]``.

The rows are those of ``data/measured.csv`` and ``data/timed.csv`` that give tokens per second, step time or TFLOPS.
Each is predicted twice: with the constants as they are, and with those of ``START`` fitted again without its source,
from where counting and other publications put them. It prints errors by engine and source and how many runs lie in
their band; writes ``results/step-time-accuracy-DATE.json``, and with ``--page`` its section of ``docs/accuracy.md``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("DS_ACCELERATOR", "cpu")

from accuracy_page import put_section
from accuracy_rows import rows
from step_time_page import section
from step_time_rows import Timing, timings
from step_time_search import fitted

from zeroconf.rates import RATES

ROOT = Path(__file__).parent.parent
# where the search starts, and what it is pulled towards. Chips: a whole step's best published share (V100: 64 of 125
# TFLOPS, DeepSpeed's fastest BERT post) or 0.87 and 0.75 of the largest product's share (stas00/ml-engineering, MAMF of
# A100 and H100). Bytes: as counted in rates.py. FSDP: hidden but for a tenth
START = {
    "A100 efficiency": 0.75,
    "H100 efficiency": 0.60,
    "V100 efficiency": 0.51,
    "attention_share": 0.8,
    "fused_block_bytes": 300.0,
    "block_bytes": 500.0,
    "fsdp_exposure": 0.1,
}
# the weight of the squared logarithm of a change beside the errors: a change of 10 % costs 0.03
PULL = 3.0
# errors below this are noise: squared, not absolute
_NOISE = 0.05
# of a step's time; below, what is off in compute drowns what communication adds
_TELLING = 0.3


def loss(runs: list[Timing], constants: dict[str, float]) -> float:
    """Errors in logarithms; a source counts with the root of its runs, so that none drowns the others."""
    counts = Counter(run.source for run in runs)
    total = 0.0
    for run in runs:
        error = abs(math.log(run.step(constants).total_seconds / run.measured_seconds))
        smooth = error if error > _NOISE else error * error / (2 * _NOISE) + _NOISE / 2
        total += smooth / math.sqrt(counts[run.source])
    return total


def fit(runs: list[Timing]) -> dict[str, float]:
    """The constants that these runs ask for, and how much of the communication the most hidden of them shows."""
    used = [run for run in runs if run.full and run.known_network]
    constants = fitted(START, lambda constants: loss(used, constants), pull=PULL)
    return constants | {"low_exposure": lowest_exposure(used, constants)}


def lowest_exposure(runs: list[Timing], constants: dict[str, float]) -> float:
    """The least share of its communication that a DeepSpeed run waits for, of those that send for long enough to tell.

    Only stage 3 gathers while it computes.
    """
    steps = [(run, run.step(constants)) for run in runs if run.engine == "DeepSpeed" and run.row["stage"] == "3"]
    return min(
        1 + (run.measured_seconds - step.total_seconds) / step.communication_seconds
        for run, step in steps
        if step.communication_seconds >= _TELLING * step.total_seconds
    )


def predicted(run: Timing, left_out: dict[str, float]) -> dict[str, Any]:
    """One run as it stands in the result; the band is that of the prediction without its source."""
    now, blind = run.step({}), run.step(left_out)
    keys = ("id", "framework", "stage", "model", "gpu", "gpus", "sequence_length", "micro_batch", "grade", "note")
    return {
        **{key: run.row[key] for key in keys},
        "source": run.source,
        "engine": run.engine,
        "full": run.full,
        "quantize": run.row.get("quantize", ""),
        "known_network": run.known_network,
        "measured_seconds": round(run.measured_seconds, 4),
        "predicted_seconds": round(now.total_seconds, 4),
        "signed_error": round(now.total_seconds / run.measured_seconds - 1, 4),
        "left_out_error": round(blind.total_seconds / run.measured_seconds - 1, 4),
        "left_out_band": [round(blind.low_seconds, 4), round(blind.high_seconds, 4)],
        "in_band": blind.low_seconds <= run.measured_seconds <= blind.high_seconds,
        "compute_seconds": round(now.compute_seconds, 4),
        "host_seconds": round(now.host_seconds, 4),
        "exposed_seconds": round(now.exposed_communication_seconds, 4),
        "offload_seconds": round(now.offload_seconds, 4),
    }


def errors(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Absolute errors with and without the source, and the bands."""

    def pair(key: str) -> dict[str, float]:
        signed = [row[key] for row in found]
        sizes = sorted(map(abs, signed))
        return {
            "median_absolute": round(statistics.median(sizes), 4),
            "p90_absolute": round(sizes[round(0.9 * (len(sizes) - 1))], 4),
            "median_signed": round(statistics.median(signed), 4),
        }

    return {
        "rows": len(found),
        "fitted": pair("signed_error"),
        "left_out": pair("left_out_error"),
        "in_band": round(sum(row["in_band"] for row in found) / len(found), 3),
        "median_band": round(statistics.median(row["left_out_band"][1] / row["left_out_band"][0] for row in found), 3),
    }


def kind(row: dict[str, Any]) -> str:
    """What trains, over which weights."""
    if row["full"]:
        return "full"
    return "adapters over 4 bits" if row["quantize"] else "adapters"


def groups(found: list[dict[str, Any]], *keys: str) -> dict[str, Any]:
    """Errors by the values of ``keys``."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        by_name.setdefault(", ".join(str(row[key]) for key in keys), []).append(row)
    return {name: errors(rows) for name, rows in sorted(by_name.items())}


def result() -> dict[str, Any]:
    """Everything, as the file holds it."""
    runs = timings()
    left_out = {source: fit([run for run in runs if run.source != source]) for source in {run.source for run in runs}}
    found = [predicted(run, left_out[run.source]) for run in runs]
    gated = [row for row in found if row["full"] and row["known_network"]]
    beside = [row for row in found if row not in gated]
    unused = rows("timed_unused")
    return {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "versions": {"deepspeed": version("deepspeed")},
        "all": errors(gated),
        "engines": groups(gated, "engine"),
        "sources": groups(gated, "engine", "source"),
        "beside": groups([row | {"kind": kind(row)} for row in beside], "engine", "source", "kind"),
        "start": START | {"low_exposure": RATES.exposure},
        "fitted": _rounded(fit(runs)),
        "left_out": {source: _rounded(constants) for source, constants in sorted(left_out.items())},
        "rows": found,
        "unused": {
            "reasons": dict(Counter(row["reason"] for row in unused).most_common()),
            "rows": [{key: row[key] for key in ("id", "source", "reason")} for row in unused],
        },
    }


def _rounded(constants: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.3g}") for name, value in constants.items()}


def main() -> None:
    """Computes, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="also write the section of docs/accuracy.md")
    args = parser.parse_args()
    found = result()
    text = section(found)
    print(text)
    path = ROOT / "benchmarks" / "results" / f"step-time-accuracy-{found['date']}.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if args.page:
        put_section(ROOT / "docs" / "accuracy.md", text)


if __name__ == "__main__":
    main()
