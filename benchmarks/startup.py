"""Whole-process times as ratios to bare Python, alternating in one run: ``python benchmarks/startup.py``.

Bars: ``zeroconf --help`` at most 6x ``python -c pass``, ``zeroconf generate`` under one second. Timings depend on
the machine and its load, so the ratios of one run count. Prints a JSON object.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

RUNS = 15
SCRIPT = Path(sys.executable).with_name("zeroconf")
LARGEST = ["--model", "llama-3.1-405b", "--hardware", "128x8xH100-80GB", "--network", "ib-ndr", "--nvme", "/n:28TB"]
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "python -c 'import click'": [sys.executable, "-c", "import click"],
    "zeroconf --help": [str(SCRIPT), "--help"],
    "zeroconf generate (8B on 8 GPUs)": [
        str(SCRIPT), "generate", "--model", "llama-3.1-8b", "--hardware", "8xA100-80GB", "--dry-run",
    ],
    "zeroconf generate (405B on 1024 GPUs)": [str(SCRIPT), "generate", *LARGEST, "--dry-run"],
}  # fmt: skip


def seconds(command: list[str], folder: str) -> float:
    """Wall time of one whole process."""
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    """Runs all commands in turn, so that load falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(RUNS):
            for name, command in COMMANDS.items():
                times[name].append(seconds(command, folder))
    bare = statistics.median(times["python -c pass"])
    rows = {
        name: {"median_seconds": round(statistics.median(runs), 4), "ratio": round(statistics.median(runs) / bare, 2)}
        for name, runs in times.items()
    }
    result = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "python": platform.python_version(),
        "runs": RUNS,
        "commands": rows,
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
