"""Two real gloo ranks against the dry run: ``python benchmarks/memory_oracle/two_ranks.py [--output FILE.json]``.

The base case of each stage on two ranks, through the smoke test's own launch; compiles DeepSpeed's FusedAdam for the
CPU unless it is kept. At stage 3 asynchronous handles hold buffers longer than a simulated rank's: bar 5 %.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cases import case

from zeroconf.smoke.launch import run_smoke_test

BARS = {0: 0.02, 1: 0.02, 2: 0.02, 3: 0.05}


def measured(stage: int, mode: str) -> dict[str, int]:
    """The highest bytes of any rank by phase, and the steady bytes."""
    job = replace(case(stage).job, mode=mode, world_size=2, steps=3)
    result = run_smoke_test(job, device="cpu", on_progress=lambda line: print(line, file=sys.stderr))
    if result.outcome != "fits":
        sys.exit(f"stage {stage}, {mode}: {result.outcome}: {result.explanation} ({result.log_path})")
    phases = {phase: max(rank.phases[phase] for rank in result.ranks) for phase in result.ranks[0].phases}
    return phases | {"steady": max(rank.steady_bytes for rank in result.ranks)}


def main() -> None:
    """Runs each stage in both modes; prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stages", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for stage in args.stages:
        real, dry = measured(stage, "real"), measured(stage, "dry-run")
        errors = {phase: round(dry[phase] / real[phase] - 1, 5) for phase in real}
        within = all(abs(error) <= BARS[stage] for error in errors.values())
        rows.append({"stage": stage, "real": real, "dry": dry, "errors": errors, "within_bars": within})
        print(json.dumps(rows[-1]))
    if args.output:
        versions = {name: version(name) for name in ("torch", "deepspeed", "transformers")}
        result = {"date": datetime.now(tz=UTC).date().isoformat(), "versions": versions, "bars": BARS, "stages": rows}
        args.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
