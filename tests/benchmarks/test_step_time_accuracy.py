"""Published step times against the estimate: the bars that the newest result meets, and the tables behind it."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


def newest(name):
    return json.loads(max((BENCHMARKS / "results").glob(f"{name}-*.json")).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def rows_module():
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("step_time_rows")
    sys.path.remove(str(BENCHMARKS))


def test_each_engine_is_within_the_bars_with_its_source_left_out():
    found = newest("step-time-accuracy")
    for engine in ("DeepSpeed", "FSDP", "nanotron"):
        errors = found["engines"][engine]
        assert errors["rows"] >= 25
        assert errors["left_out"]["median_absolute"] <= 0.12
        assert errors["left_out"]["p90_absolute"] <= 0.30
        assert errors["in_band"] >= 0.8
        assert errors["median_band"] <= 1.6
    assert found["all"]["in_band"] >= 0.8
    assert found["all"]["median_band"] <= 1.6


def test_the_constants_are_those_that_the_fit_asks_for(rows_module):
    fitted = newest("step-time-accuracy")["fitted"]
    assert rows_module.RATES.block_bytes == pytest.approx(fitted["block_bytes"], rel=0.03)
    assert rows_module.RATES.low_exposure == pytest.approx(fitted["low_exposure"], rel=0.03)
    assert rows_module.RATES.attention_share == pytest.approx(fitted["attention_share"], rel=0.03)
    assert pytest.approx(fitted["fused_block_bytes"], rel=0.03) == rows_module.FUSED_BLOCK_BYTES
    for run in rows_module.timings():
        if f"{run.chip} efficiency" in fitted:
            assert run.efficiency == pytest.approx(fitted[f"{run.chip} efficiency"], rel=0.03)


def test_the_result_is_what_the_estimate_says_now(rows_module):
    recorded = {row["id"]: row["predicted_seconds"] for row in newest("step-time-accuracy")["rows"]}
    for run in rows_module.timings()[::20]:
        assert run.step({}).total_seconds == pytest.approx(recorded[run.row["id"]], rel=0.02)


def test_every_unused_timing_has_a_reason_and_is_not_used(rows_module):
    unused = importlib.import_module("accuracy_rows").rows("timed_unused")
    assert all(row["source"] and row["reason"] for row in unused)
    assert not {row["id"] for row in unused} & {run.row["id"] for run in rows_module.timings()}


def test_the_pick_costs_little_and_what_is_ordered_otherwise_is_explained():
    found = newest("choice")
    assert found["mean_regret"] <= 0.05
    for one in found["rankings"]:
        assert not one["pairs_ordered_otherwise"] or one["left_open"]
