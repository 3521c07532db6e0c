"""How long a dry run takes, as ratios to bare Python, and its largest process: ``python benchmarks/dry_run_speed.py``.

Bars: Llama-3-8B at stages 1 to 3 on 8 ranks under 30 seconds each, a 70B at stage 3 on 64 ranks under 3 minutes, none
above 1.5 GB of resident memory. Whole commands, imports included. ``load`` is the machine's at the start of each:
beside other work the processor seconds count, the wall's are no measurement. Prints a JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

RUNS = {"llama-3-8b": [(1, 8), (2, 8), (3, 8)], "llama-3-70b": [(3, 64)]}
RSS_BAR_BYTES = 1_500_000_000
SECONDS_BAR = {"llama-3-8b": 30, "llama-3-70b": 180}
BARE_RUNS = 5


def timed(command: list[str], folder: str) -> tuple[float, float, int]:
    """Wall and processor seconds of a command that succeeds, and the largest resident set of its processes in bytes."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main() -> None:
    """Runs each, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=list(RUNS), nargs="+", default=list(RUNS))
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        bare = statistics.median(timed([sys.executable, "-c", "pass"], folder)[0] for _ in range(BARE_RUNS))
        for model in args.model:
            for stage, ranks in RUNS[model]:
                config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}}
                config |= {
                    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
                    "zero_optimization": {"stage": stage},
                }
                (Path(folder) / "ds.json").write_text(json.dumps(config), encoding="utf-8")
                command = [sys.executable, "-m", "zeroconf", "smoke-test", "ds.json", "--model", model]
                load = os.getloadavg()[0]
                seconds, processor, resident = timed([*command, "--dry-run", "--world-size", str(ranks)], folder)
                rows.append(
                    {
                        "model": model,
                        "stage": stage,
                        "ranks": ranks,
                        "seconds": round(seconds, 1),
                        "processor_seconds": round(processor, 1),
                        "ratio_to_bare_python": round(seconds / bare),
                        "resident_bytes": resident,
                        "within_bars": seconds <= SECONDS_BAR[model] and resident <= RSS_BAR_BYTES,
                        "load": round(load, 1),
                    }
                )
                print(json.dumps(rows[-1]), file=sys.stderr)
    result = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("torch", "deepspeed", "transformers")},
        "bare_python_seconds": round(bare, 3),
        "runs": rows,
    }
    text = json.dumps(result, indent=1)
    print(text)
    if args.output:
        args.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
