"""What the dry run shows release by release, and how it was checked."""

from __future__ import annotations

import statistics
import textwrap
from typing import Any

from figures_results import link, newest, peak, peak_errors, percent
from write_rules import table

_FAR = 0.03
# what a row says, the benchmark's case, whose memory, when or of which kind
_ROWS = (
    ("stage 0, bf16: step", "stage 0", "bytes", "step"),
    ("stage 0, bf16: between steps", "stage 0", "bytes", "steady"),
    ("stage 1, bf16 with fp32 gradients: backward", "stage 1, fp32 gradients", "bytes", "backward"),
    ("stage 2: init", "stage 2", "bytes", "init"),
    ("stage 2, optimizer on the CPU: backward", "stage 2, CPU optimizer", "bytes", "backward"),
    ("the same: pinned on the host", "stage 2, CPU optimizer", "host", "pinned_bytes"),
    ("the same: pageable on the host", "stage 2, CPU optimizer", "host", "pageable_bytes"),
    ("stage 3: backward", "stage 3", "bytes", "backward"),
    ("stage 3 without `zero.Init`: backward", "stage 3, no zero.Init", "bytes", "backward"),
    ("the same with checkpointing: backward", "stage 3, no zero.Init, checkpointing", "bytes", "backward"),
    ("stage 3 without `zero.Init`, LoRA: forward", "stage 3, no zero.Init, LoRA", "bytes", "forward"),
)


def releases() -> str:
    """Bytes per parameter by release, dry run (estimate)."""
    found = newest("dry-run-releases")
    parameters, by_case = found["parameters"], {(row["case"], row["release"]): row for row in found["rows"]}
    names = sorted({row["release"] for row in found["rows"]})

    def cell(row: dict[str, Any], whose: str, which: str) -> str:
        dry, estimate = (row[who][whose][which] / parameters for who in ("dry-run", "estimate"))
        return f"{dry:.2f} ({estimate:.2f})"

    rows = [
        " | ".join([text, *(cell(by_case[case, name], whose, which) for name in names)])
        for text, case, whose, which in _ROWS
    ]
    errors = [error for row in found["rows"] for error in row["estimate_errors"].values()]
    cases = len({row["case"] for row in found["rows"]})
    far = sum(abs(error) > _FAR for error in errors)
    return table(" | ".join(["", *names]), rows) + (
        f"\nOf {len(errors)} figures ({cases} configurations, {len(names)} releases) the estimate is off by more than "
        f"{percent(_FAR)} in {far} ({link('dry-run-releases')}, which has all).\n"
    )


def checked() -> str:
    """How far the estimate is from the engine, and how often its interval holds it."""
    small, large = (_against(benchmark) for benchmark in ("memory-oracle", "memory-real-size"))
    text = (
        f"Of {small['cases']} configurations those beyond 0.5 % (between steps) or 2 % (peaks) stand in the result by "
        f"cause; the estimate's peak is off by {percent(small['median'], 2)} in the median, "
        f"{percent(small['p95'], 1)} at the 95th percentile and never low by more than {percent(small['lowest'], 1)}; "
        f"on {large['cases']} shapes of true size by {percent(large['median'], 1)}, {percent(large['p95'], 1)} and "
        f"{percent(large['lowest'], 1)}. Its interval, {percent(small['width'])} wide in the median, holds "
        f"{percent(small['held'])} and {percent(large['held'])} of these peaks."
    )
    return textwrap.fill(text, 120) + "\n"


def _against(benchmark: str) -> dict[str, float]:
    signed = peak_errors(benchmark)
    errors = sorted(abs(error) for error in signed)
    peaks = [(peak(case["device"]), case["interval"]) for case in newest(benchmark)["cases"]]
    return {
        "cases": len(errors),
        "median": statistics.median(errors),
        "p95": errors[int(0.95 * len(errors))],
        "lowest": min(signed),
        "width": statistics.median((at["high_bytes"] - at["low_bytes"]) / measured for measured, at in peaks),
        "held": statistics.mean(at["low_bytes"] <= measured <= at["high_bytes"] for measured, at in peaks),
    }
