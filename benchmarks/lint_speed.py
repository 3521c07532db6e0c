"""What ``zeroconf lint`` takes: one file as a ratio to bare Python, and 1,000 files in one call.

``python benchmarks/lint_speed.py [--peers]``: commands alternate in one run, so that load falls on all alike;
``--peers`` installs check-jsonschema and yamllint into a throw-away environment and runs them on the same file.
Bars: at most 8x ``python -c pass``, at most 3 ms a file after start. On a busy machine the processor times tell more.
Prints a JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "differential"))

from bases import BASES

RUNS, FILES = 15, 1000
REPOSITORY = Path(__file__).parent.parent
SCRIPT = Path(sys.executable).with_name("zeroconf")
PEERS = ("check-jsonschema", "yamllint")
# an installed program has its bytecode beside it: it is written by the first, discarded run
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds(command: list[str]) -> tuple[float, float]:
    """Wall and processor time of one whole process; the exit code may say that there are findings."""
    start, used = time.perf_counter(), sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False)
    elapsed = time.perf_counter() - start
    used = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - used
    if done.returncode not in {0, 1}:
        msg = f"{command}: {done.stderr.decode()}"
        raise SystemExit(msg)
    return elapsed, used


def peers(folder: Path, config: Path, accelerate: Path) -> dict[str, list[str]]:
    """Commands of other linters on the same files, installed where nothing else is."""
    venv.create(folder / "peers", with_pip=True)
    scripts = folder / "peers" / "bin"
    subprocess.run([scripts / "python", "-m", "pip", "install", "-q", *PEERS], check=True)
    schema = REPOSITORY / "schemas" / "ds_config.schema.json"
    commands = {"yamllint accelerate.yaml": [str(scripts / "yamllint"), str(accelerate)]}
    if schema.exists():
        words = [str(scripts / "check-jsonschema"), "--schemafile", str(schema), str(config)]
        commands["check-jsonschema --schemafile ds_config.schema.json"] = words
    return commands


def _medians(runs: list[tuple[float, float]]) -> tuple[float, float]:
    wall, used = zip(*runs, strict=True)
    return statistics.median(wall), statistics.median(used)


def main() -> None:
    """Times and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        many = folder / "many"
        many.mkdir()
        for number in range(FILES):
            base = BASES[number % len(BASES)]
            (many / f"{number:04}.{base.syntax}").write_text(base.text, encoding="utf-8")
        config = many / f"{[base.name for base in BASES].index('plain-3-bf16'):04}.json"
        accelerate = many / f"{[base.name for base in BASES].index('inline-3'):04}.yaml"
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "zeroconf --help": [str(SCRIPT), "--help"],
            "zeroconf lint ds_config.json": [str(SCRIPT), "lint", str(config)],
            "zeroconf lint accelerate.yaml": [str(SCRIPT), "lint", str(accelerate)],
        }
        if args.peers:
            commands |= peers(folder, config, accelerate)
        times: dict[str, list[tuple[float, float]]] = {command: [] for command in commands}
        batch: list[tuple[float, float]] = []
        for words in commands.values():
            seconds(words)
        for number in range(RUNS):
            for command, words in commands.items():
                times[command].append(seconds(words))
            if number % 5 == 0:
                batch.append(seconds([str(SCRIPT), "lint", *map(str, sorted(many.iterdir()))]))
    medians = {command: _medians(runs) for command, runs in times.items()}
    bare = medians["python -c pass"]
    one = medians["zeroconf lint ds_config.json"]
    per_file = [(many - start) / (FILES - 1) * 1000 for many, start in zip(_medians(batch), one, strict=True)]
    result = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "python": platform.python_version(),
        "runs": RUNS,
        "commands": {
            command: {
                "median_seconds": round(wall, 4),
                "ratio": round(wall / bare[0], 2),
                "processor_ratio": round(used / bare[1], 2),
            }
            for command, (wall, used) in medians.items()
        },
        "files": FILES,
        "milliseconds_per_file_after_start": round(per_file[0], 3),
        "processor_milliseconds_per_file_after_start": round(per_file[1], 3),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
