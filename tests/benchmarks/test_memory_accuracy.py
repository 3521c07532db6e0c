"""Published runs against the estimate: the bars, and a page that says what the result file says."""

from __future__ import annotations

import importlib
import json
import statistics
import sys
from pathlib import Path

import pytest

from zeroconf.estimate.rules_of_thumb import model_state_bytes

ROOT = Path(__file__).parent.parent.parent
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def rows_module():
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("accuracy_rows")
    sys.path.remove(str(BENCHMARKS))


def test_at_most_one_run_in_twenty_that_ran_is_called_does_not_fit(rows_module):
    ran = [row for row in rows_module.rows() if row["fits"] == "yes"]
    refused = [row["id"] for row in ran if rows_module.predicted(row).verdict == "does-not-fit"]
    assert len(ran) > 100
    assert len(refused) <= 0.05 * len(ran), refused


def test_what_ran_out_of_memory_is_not_called_comfortable(rows_module):
    failed = [row for row in rows_module.rows() if row["fits"] == "oom"]
    assert failed
    assert "comfortable" not in {rows_module.predicted(row).verdict for row in failed}


def test_the_closed_formulas_are_further_off_where_they_answer(rows_module):
    ours, formulas = [], []
    for row in rows_module.rows():
        if row["measured_gib"] and not row["lora_rank"]:
            measured = rows_module.measured_bytes(row)
            stated = model_state_bytes(int(row["num_parameters"]), int(row["gpus"]), int(row["stage"]))
            formulas.append(abs(stated / measured - 1))
            ours.append(abs(rows_module.comparable_bytes(row, rows_module.predicted(row)) / measured - 1))
    assert statistics.median(ours) < statistics.median(formulas)


def test_every_row_has_a_public_source_and_is_used_or_has_a_reason(rows_module):
    used, unused = rows_module.rows(), rows_module.rows("measured_unused")
    assert all(row["source"] for row in used + unused)
    assert all(row["reason"] for row in unused)
    assert not {row["id"] for row in used} & {row["id"] for row in unused}


@pytest.mark.usefixtures("rows_module")
def test_the_page_is_the_newest_result_files():
    parts = []
    for name, module, function in (
        ("memory-accuracy", "accuracy_page", "page"),
        ("step-time-accuracy", "step_time_page", "section"),
    ):
        newest = max((BENCHMARKS / "results").glob(f"{name}-*.json"))
        written = getattr(importlib.import_module(module), function)
        parts.append(written(json.loads(newest.read_text(encoding="utf-8"))))
    assert "\n".join(parts) == (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
