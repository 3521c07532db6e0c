"""The linter and the libraries agree on mutants: an error where they refuse, none but silent faults where not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import harness  # (importlib mode adds no folder to the path)
from mutate import KINDS, mutants
from silent import EXCUSES, UNREAD

from zeroconf.rules import RULES

pytestmark = pytest.mark.launch
SEED, COUNT = 20, 200


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    with harness.Judge(tmp_path_factory.mktemp("judge")) as process:
        yield process


@pytest.fixture(scope="module")
def outcomes(judge):
    """Each mutant's comparison; a tenth is tried by the engine in any case."""
    return [
        harness.compare(mutant, judge, engine=number % 10 == 0) for number, mutant in enumerate(mutants(SEED, COUNT))
    ]


def test_every_base_is_accepted_and_clean(judge):
    assert len(harness.parsed_bases(judge)) >= 50


def test_the_same_seed_gives_the_same_mutants():
    assert mutants(SEED, 50) == mutants(SEED, 50)
    assert {mutant.kind for mutant in mutants(SEED, COUNT)} == set(KINDS)


def test_the_judge_tells_accepted_from_refused(judge):
    case = {"reader": "deepspeed", "syntax": "json"}
    text = '{"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"%s": 0.1}}}'
    good = judge({**case, "text": text % "lr"}, engine=True)
    assert (good["accepted"], good["where"]) == (True, "engine")
    bad = judge({**case, "text": text % "max_grad_norm"})
    assert (bad["accepted"], bad["where"]) == (True, "parser")
    bad = judge({**case, "text": text % "max_grad_norm"}, engine=True)
    assert (bad["accepted"], bad["where"]) == (False, "engine")
    assert "max_grad_norm" in bad["error"]


def test_no_disagreement(outcomes):
    groups = harness.grouped(outcomes)
    assert {cause: [one.mutant.text for one in group][:2] for cause, group in groups.items()} == {}


def test_most_mutants_could_be_judged_and_both_verdicts_are_common(outcomes):
    kinds = [outcome.kind for outcome in outcomes]
    assert kinds.count("not judged") < COUNT / 20
    refused = sum(outcome.verdict["accepted"] is False for outcome in outcomes)
    assert COUNT / 5 < refused < COUNT * 4 / 5


def test_the_silent_faults_are_rules():
    assert {*UNREAD, *(excuse.code for excuse in EXCUSES)} <= set(RULES)
