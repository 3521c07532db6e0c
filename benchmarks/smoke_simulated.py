"""One process as one rank of many, beside the estimate and beside real ranks: ``benchmarks/smoke_simulated.py``.

A small Llama on the CPU, bf16, AdamW, no offload. Two ranks for real at stages 0 to 3, and rank 0 of the same two
simulated: bars 0.5 % between steps, and for the peak of each phase 2 % at stages 0 to 2, 5 % at stage 3. Rank 0 of 8
and of 64 simulated at stages 1 to 3: bar 5 % of the estimate's peak. Bytes are those that PyTorch's CPU allocator was
asked for, so that neither the machine nor its load moves them; seconds are the whole commands'. Prints JSON, writes
``--output``; exits with 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from smoke_matrix import ARCHITECTURE, LENGTH, Case

PACKAGES = ("torch", "deepspeed", "transformers")
STEADY_BAR = 0.005
PEAK_BARS = {0: 0.02, 1: 0.02, 2: 0.02, 3: 0.05}
ESTIMATE_BAR = 0.05
SIMULATED = [(stage, ranks) for ranks in (8, 64) for stage in (1, 2, 3)]


def smoke_test(stage: int, folder: Path, *options: str) -> dict[str, Any]:
    """The JSON of one smoke test, with its wall seconds."""
    case = Case(stage, "none", 2, 0, "torchrun")
    path = folder / "ds.json"
    path.write_text(json.dumps(case.config()), encoding="utf-8")
    command = [sys.executable, "-m", "zeroconf", "smoke-test", str(path), "--model", str(folder), "--json"]
    command += ["--seq-len", str(LENGTH), "--device", "cpu", *options]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"stage {stage} {' '.join(options)}: {done.stdout}{done.stderr}")
    return {**json.loads(done.stdout), "seconds": round(time.monotonic() - start, 1)}


def real_beside_simulated(stage: int, folder: Path) -> dict[str, Any]:
    """Rank 0 of two that were started, and the process that stands for it: bytes, and relative differences."""
    real = smoke_test(stage, folder, "--num-gpus", "2")
    alone = smoke_test(stage, folder, "--num-gpus", "1", "--world-size", "2")
    one, other = real["ranks"][0], alone["ranks"][0]
    steady = other["steady_bytes"] / one["steady_bytes"] - 1
    peaks = {name: other["phases"][name] / size - 1 for name, size in one["phases"].items()}
    return {
        "stage": stage,
        "real": {**one["phases"], "steady": one["steady_bytes"]},
        "simulated": {**other["phases"], "steady": other["steady_bytes"]},
        "steady_difference": round(steady, 5),
        "peak_differences": {name: round(difference, 5) for name, difference in peaks.items()},
        "within_bars": abs(steady) <= STEADY_BAR and max(map(abs, peaks.values())) <= PEAK_BARS[stage],
        "seconds": [real["seconds"], alone["seconds"]],
    }


def simulated_beside_estimate(stage: int, ranks: int, folder: Path) -> dict[str, Any]:
    """Rank 0 of many, simulated, and the estimate of it: bytes at each moment, and the relative error of the peak."""
    ran = smoke_test(stage, folder, "--num-gpus", "1", "--world-size", str(ranks))
    (rank,), gpu = ran["ranks"], ran["predicted"]["gpu"]
    return {
        "stage": stage,
        "ranks": ranks,
        "simulated": rank["phases"],
        # without context and NCCL, which PyTorch does not count
        "estimate": {name: size - gpu["overhead"] for name, size in gpu["moments"].items()},
        "relative_error": round(ran["relative_error"], 5),
        "within_bar": abs(ran["relative_error"]) <= ESTIMATE_BAR,
        "seconds": ran["seconds"],
    }


def main() -> None:
    """Runs the grid, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(ARCHITECTURE), encoding="utf-8")
        pairs = [told(real_beside_simulated(stage, folder)) for stage in PEAK_BARS]
        alone = [told(simulated_beside_estimate(stage, ranks, folder)) for stage, ranks in SIMULATED]
    result = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in PACKAGES},
        "load_at_start": round(load, 1),
        "bars": {"steady": STEADY_BAR, "peak_by_stage": PEAK_BARS, "estimate": ESTIMATE_BAR},
        "real_beside_simulated": pairs,
        "simulated_beside_estimate": alone,
        "within_bars": all(row["within_bars"] for row in pairs) and all(row["within_bar"] for row in alone),
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text, end="")
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    sys.exit(not result["within_bars"])


def told(row: dict[str, Any]) -> dict[str, Any]:
    """The row, shown as it comes."""
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


if __name__ == "__main__":
    main()
