"""How long ``generate`` takes as a whole process, and whether its search misses anything: ``search_speed.py``.

Bar: under one second for each, nothing fitting included. Timings depend on the machine and its load, so the ratios to
bare Python of one run count, and processor seconds beside them. Then the winner of the search is compared with the
winner of all candidates by the same rule, on 200 seeded cases. Prints a JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from generate_cases import cases

from zeroconf import api
from zeroconf.errors import InputError
from zeroconf.plan.candidates import plans
from zeroconf.plan.choose import decide, first_choice
from zeroconf.plan.search import costed

RUNS = 7
EXHAUSTIVE = 200
SEED = 3
MOST_SPLITS = 5040  # sequences per GPU with more divisors than any smaller number
_BIG = ["--hardware", "128x8xH100-80GB", "--network", "ib-ndr", "--nvme", "/n:28TB"]
COMMANDS = {
    "8B on 8 GPUs": ["--model", "llama-3.1-8b", "--hardware", "8xA100-80GB"],
    "405B on 1024 GPUs": ["--model", "llama-3.1-405b", *_BIG],
    "405B on 1024 GPUs, many batch splits": [
        "--model", "llama-3.1-405b", *_BIG, "--global-batch-size", str(1024 * MOST_SPLITS),
    ],
    "405B on 8 GPUs: nothing fits": [
        "--model", "llama-3.1-405b", "--hardware", "8xA100-40GB", "--nvme", "/n:28TB",
        "--global-batch-size", str(8 * MOST_SPLITS),
    ],
    "671B on 1 GPU: nothing fits": [
        "--model", "deepseek-v3", "--hardware", "1xA10G", "--global-batch-size", str(MOST_SPLITS),
    ],
    "how many GPUs for 405B": [
        "--model", "llama-3.1-405b", "--hardware", "A100-40GB", "--global-batch-size", str(1024 * MOST_SPLITS),
    ],
}  # fmt: skip


def timed(command: list[str], folder: str) -> tuple[float, float]:
    """Wall and processor seconds of one whole process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in {0, 3}:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime


def speeds() -> dict[str, Any]:
    """All commands in turn, so that load falls on all alike."""
    commands = {"python -c pass": [sys.executable, "-c", "pass"]}
    commands |= {
        name: [sys.executable, "-m", "zeroconf", "generate", *words, "--dry-run"] for name, words in COMMANDS.items()
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(RUNS):
            for name, command in commands.items():
                times[name].append(timed(command, folder))
    bare = statistics.median(wall for wall, _ in times["python -c pass"])
    return {
        name: {
            "median_seconds": round(statistics.median(wall for wall, _ in runs), 3),
            "median_processor_seconds": round(statistics.median(processor for _, processor in runs), 3),
            "ratio_to_bare_python": round(statistics.median(wall for wall, _ in runs) / bare, 1),
        }
        for name, runs in times.items()
    }


def compared(number: int) -> dict[str, Any]:
    """The winner of the search beside that of every candidate, each with its cost, on so many cases."""
    rng = random.Random(SEED)
    different, searched, all_plans, nothing = [], 0, 0, 0
    for options in cases(number, SEED):
        wide = options
        if "gradient_accumulation" not in options and "micro_batch_size" not in options:
            ranks = api.load_facts(options)[0].cluster.num_gpus
            wide = options | {"global_batch_size": ranks * rng.choice((1, 7, 12, 48, 97, 240, 1260))}
        try:
            facts, _ = api.load_facts(wide)
        except InputError:
            facts, _ = api.load_facts(options)
        decision = decide(facts)
        everything = [costed(facts, plan) for plan in plans(facts)]
        best = first_choice([candidate for candidate in everything if candidate.rejected_by is None])
        searched, all_plans = searched + decision.num_searched, all_plans + len(everything)
        nothing += best is None
        if (best and best.plan) != (decision.chosen and decision.chosen.plan):
            different.append(" ".join(f"{name}={value}" for name, value in wide.items()))
    return {
        "cases": number,
        "nothing_fits": nothing,
        "different_winner": different,
        "candidates": all_plans,
        "costed_by_the_search": searched,
    }


def main() -> None:
    """Measures, compares, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    result = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
        "runs": RUNS,
        "generate": speeds(),
        "exhaustive": compared(EXHAUSTIVE),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if args.output:
        args.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
