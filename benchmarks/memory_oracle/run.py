"""The dry run against counted allocations: ``python benchmarks/memory_oracle/run.py [--only TEXT] [--jobs 2]``.

``--real-size`` takes the cases of real_cases.py, in dry runs alone: what the estimate is judged by.
Runs each case twice through the smoke test's own worker, as one rank of many: on real tensors under the counting
allocator ("simulated", the truth here) and on fake tensors ("dry-run"). Prints bytes by phase with signed errors,
the analytic estimate beside the dry run's device, and every case that failed or is out of the bars. Runs in the
training environment; torch, DeepSpeed and transformers are imported once, then each run is a fork.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import random
import select
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "zeroconf" / "smoke" / "worker"))
import caches
from cases import QUICK, Case, cases
from real_cases import real_cases
from report import MODES, compare, summary, table

from zeroconf.smoke.command import cache_directory

STEPS = {"dry-run": 2, "simulated": 3}  # as smoke-test's own defaults
RUN_SECONDS = 600
# before torch and DeepSpeed are imported
ENVIRONMENT = {
    "DS_ACCELERATOR": "cpu",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "OMP_NUM_THREADS": "1",
}


Records = dict[tuple[str, str], dict[str, Any]]


def read_kept(kept: Path | None) -> Records:
    """The records of an earlier, perhaps interrupted, run."""
    if kept is None or not kept.exists():
        return {}
    lines = map(json.loads, kept.read_text(encoding="utf-8").splitlines())
    return {(line["case"], line["mode"]): line["record"] for line in lines}


def run_all(chosen: list[tuple[Case, str]], jobs: int, kept: Path | None, logs: Path, minutes: float) -> Records:
    """The record of each case and mode, ``jobs`` at a time; what ``kept`` has is not run again.

    After ``minutes`` no further run is started.
    """
    deadline = time.monotonic() + 60 * minutes
    records = read_kept(kept)
    todo = [(one, mode) for one, mode in chosen if (one.name, mode) not in records]
    counter = str(caches.build_counter(caches.build_directory(cache_directory())))
    os.environ |= ENVIRONMENT
    worker_run = importlib.import_module("worker_run")
    gc.freeze()
    running: dict[int, tuple[Case, str, int, float, list[bytes]]] = {}
    waiting, total = list(reversed(todo)), len(todo) + len(records)
    while waiting or running:
        if time.monotonic() > deadline:
            waiting.clear()
        while waiting and len(running) < jobs:
            one, mode = waiting.pop()
            job = replace(one.job, mode=mode, steps=STEPS[mode]).to_json()
            job |= {"device": "cpu", "counter": counter, "torch_adam": False}
            child, pipe = worker_run.fork(job, logs / f"{one.name.replace('/', '+')}.{mode}.log")
            running[pipe] = one, mode, child, time.monotonic(), []
        ready, _, _ = select.select(list(running), [], [], 1.0)
        for pipe in list(running):
            one, mode, child, began, chunks = running[pipe]
            if pipe not in ready:
                if time.monotonic() - began > RUN_SECONDS:
                    os.kill(child, 9)
                continue
            if chunk := os.read(pipe, 1 << 20):
                chunks.append(chunk)
                continue
            os.close(pipe)
            status = os.waitpid(child, 0)[1]
            text = b"".join(chunks)
            record = json.loads(text) if text else {"error": f"the process ended with status {status}"}
            records[one.name, mode] = record = record | {"seconds": round(time.monotonic() - began, 1)}
            if kept:
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"case": one.name, "mode": mode, "record": record}) + "\n")
            del running[pipe]
            _progress(len(records), total, f"{one.name} {mode}")
    print(file=sys.stderr)
    return records


def _progress(done: int, total: int, what: str) -> None:
    bar = "#" * (30 * done // max(1, total))
    print(f"\r[{bar:<30}] {done}/{total} {what:<70.70}", end="", file=sys.stderr, flush=True)


def main() -> None:
    """Runs, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this; commas part several")
    parser.add_argument("--quick", action="store_true", help="only the cases of the tests")
    parser.add_argument("--real-size", action="store_true", help="models of 1B to 70B parameters; dry runs alone")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no run starts later than this")
    parser.add_argument("--keep", type=Path, help="a file of finished runs: what it has is not run again")
    parser.add_argument("--logs", type=Path, help="a folder that keeps the runs' output")
    args = parser.parse_args()
    if args.real_size:
        args.modes = ["dry-run"]
    grid = real_cases() if args.real_size else cases()
    chosen = [case for case in grid if any(text in case.name for text in args.only.split(","))]
    chosen = [case for case in chosen if case.name in QUICK or not args.quick]
    if not chosen:
        sys.exit(f"no case has {args.only!r} in its name")
    with tempfile.TemporaryDirectory() as scratch:
        logs = args.logs or Path(scratch)
        logs.mkdir(parents=True, exist_ok=True)
        # in no order, so that a run that is cut short has some of everything
        shuffled = random.Random(0).sample(chosen, len(chosen))
        records = run_all(
            [(case, mode) for case in shuffled for mode in args.modes], args.jobs, args.keep, logs, args.minutes
        )
    done = [case for case in chosen if all((case.name, mode) in records for mode in args.modes)]
    rows = [compare(case, {mode: records[case.name, mode] for mode in args.modes}) for case in done]
    found = summary(rows) | {"not_run": [case.name for case in chosen if case not in done]}
    print(table(rows))
    print(json.dumps(found, indent=2))
    if args.output:
        result = {
            "date": datetime.now(tz=UTC).date().isoformat(),
            "versions": {name: version(name) for name in ("torch", "deepspeed", "transformers", "peft")},
            "summary": found,
            "cases": rows,
        }
        args.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
