"""What ``generate`` writes for a part of the benchmark's grid is accepted at the true world size, and explained."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
# another seed than the benchmark's own
SEED, NUMBER = 1, 52


@pytest.fixture(scope="module")
def grid():
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("generate_grid")
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def made(grid, tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    tried = [grid.make(options, folder) for options in grid.cases(NUMBER, SEED)]
    return [one for one in tried if one is not None], folder


def test_the_grid_has_every_family_and_stage(grid, made):
    counts = grid.summary(made[0])
    assert len(made[0]) >= 30
    assert len(counts["architecture"]) >= 20
    assert set(counts["stage"]) == {"0", "1", "2", "3"}
    assert set(counts["reader"]) == set(grid.READERS)
    assert len(counts["offload"]) >= 3


def test_every_file_is_accepted_read_linted_and_explained(grid, made):
    chosen, folder = made
    wrong = {
        str(one): found for one, seen in zip(chosen, grid.read(chosen, folder), strict=True)
        if (found := list(grid.faults(one, seen)))
    }  # fmt: skip
    assert wrong == {}


def test_what_the_search_decided_is_explained_with_numbers(grid, made):
    for one in made[0]:
        for reason in grid.reasons_of(one):
            key = reason["key"].removeprefix("zero_optimization.")
            if key.startswith(("stage", "train_", "gradient_acc", "reduce", "sub_group", "zero_hpz", "(gradient")):
                assert re.search(r"\d", reason["because"]), f"{one}: {reason}"
            if key in {"offload_optimizer.device", "offload_param.device"}:
                assert "GiB" in reason["because"], f"{one}: {reason}"


def test_a_fault_is_seen(grid, made):
    """The judge of the grid itself: a key of another stage, an unknown one, a missing reason."""
    one = next(one for one in made[0] if one.plan.stage == 1)
    assert list(grid.unread({"zero_optimization.sub_group_size": 1}, 1))
    assert list(grid.unread({"zero_optimization.no_such_key": 1}, 3))
    assert list(grid.unread({"zero_optimization.sub_group_size": 1}, 3)) == []
    assert list(grid.faults(one, {"error": "ValueError"})) == ["refused: ValueError"]
