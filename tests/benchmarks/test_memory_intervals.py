"""The check of intervals reads both kinds of files and judges by its bars."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent.parent / "benchmarks" / "memory_intervals.py"


def run(*files):
    return subprocess.run([sys.executable, str(SCRIPT), *map(str, files)], capture_output=True, text=True, check=False)


def oracle(folder, *measured, low=95, high=105):
    rows = [
        {
            "case": f"case-{size}",
            "device": {"init": 1, "step": size},
            "interval": {"low_bytes": low, "high_bytes": high},
        }
        for size in measured
    ]
    rows += [{"case": "failed", "failed": {"dry-run": "x"}}, {"case": "no-interval", "device": {"step": 1}}]
    path = folder / "memory-oracle.json"
    path.write_text(json.dumps({"cases": rows}), encoding="utf-8")
    return path


def test_an_oracle_file_that_meets_the_bars(tmp_path):
    ran = run(oracle(tmp_path, *([100] * 9), 94))
    answer = json.loads(ran.stdout)
    assert ran.returncode == 0
    assert (answer["cases"], answer["held"], answer["median_width"]) == (10, 0.9, 0.1)
    assert answer["not_held"] == {"case-94": round(94 / 95 - 1, 4)}


def test_too_few_held_or_too_wide_fails(tmp_path):
    assert run(oracle(tmp_path, 100, 106)).returncode == 1
    wide = run(oracle(tmp_path, 100, low=90, high=110))
    assert (wide.returncode, json.loads(wide.stdout)["held"]) == (1, 1.0)


def test_a_smoke_test_adds_context_and_nccl_to_what_it_measured(tmp_path):
    path = tmp_path / "run.json"
    predicted = {"gpu": {"overhead": 10}, "interval": {"low_bytes": 105, "high_bytes": 115}}
    content = {"schema": "zeroconf/smoke-test/1", "predicted": predicted, "ranks": [{"peak_allocated_bytes": 100}]}
    path.write_text(json.dumps(content), encoding="utf-8")
    ran = run(path)
    assert (ran.returncode, json.loads(ran.stdout)["held"]) == (0, 1.0)


def test_files_without_cases_are_an_error_of_one_sentence(tmp_path):
    empty = oracle(tmp_path)
    for path in (empty, tmp_path / "missing.json"):
        ran = run(path)
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
