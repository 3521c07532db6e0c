"""Where nothing fits, the first cure that is named does: pasted to the command line as a user would."""

from __future__ import annotations

import importlib
import json
import shlex
import sys
from pathlib import Path

import pytest
from builders import LLAMA_3_8B, cluster, workload

from zeroconf import api
from zeroconf.plan.choose import decide
from zeroconf.plan.cures import find_cures
from zeroconf.types import Facts

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
SEED, NUMBER = 11, 50


@pytest.fixture(scope="module")
def nothing_fits():
    sys.path.insert(0, str(BENCHMARKS))
    cases = importlib.import_module("generate_cases")
    sys.path.remove(str(BENCHMARKS))
    found = []
    for options in cases.cases(1000, SEED):
        facts, _ = api.load_facts(options)
        if decide(facts).chosen is None:
            found.append(cases.command_line(options))
        if len(found) == NUMBER:
            return found
    raise AssertionError(len(found))


def test_the_first_cure_pasted_to_the_command_fits(run, nothing_fits):
    for words in nothing_fits:
        code, out, _ = run("generate", *words, "--json")
        first = json.loads(out)["cures"][0]
        assert (code, first["fits"]) == (3, True), shlex.join(words)
        code, _, error = run("generate", *words, *shlex.split(first["option"]), "--dry-run")
        assert code == 0, f"{shlex.join(words)} {first['option']}: {error}"


def test_several_changes_together_are_named_where_none_alone_is_enough():
    pins = {"zero_stage": 1, "offload": "none", "activation_checkpointing": "none", "sequence_length": 8192}
    case = Facts(model=LLAMA_3_8B, cluster=cluster(gpus_per_node=1), workload=workload(**pins))
    first, *others = find_cures(decide(case))
    # neither recomputation nor a fused loss is needed beside these
    assert first.option == "--zero-stage 3 --offload all"
    assert first.fits
    assert {"--zero-stage 3", "--offload optimizer"} < {cure.option for cure in others if not cure.fits}


def test_where_no_number_of_cards_is_enough_larger_ones_are_named():
    # a block's 128 experts are gathered together: more than 40 GB, however many share the rest
    facts, _ = api.load_facts({"model": "llama-4-maverick-17b-128e", "hardware": "8xp4d.24xlarge", "seq_len": 2048})
    first = find_cures(decide(facts))[0]
    assert first.fits
    assert first.option.startswith("--hardware 8x8x")
    assert "instead of A100-SXM4-40GB" in first.title
