"""Safe fixes on doubly mutated files: none makes a library refuse what it took before."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import harness  # (importlib mode adds no folder to the path)
from bases import to_text
from mutate import misspell, mutants

from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.lint.check import Checked
from zeroconf.lint.fix import Fixed, fix_document
from zeroconf.rules.facts import Reader

pytestmark = pytest.mark.launch
SEED, COUNT = 3, 150


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    with harness.Judge(tmp_path_factory.mktemp("judge")) as process:
        yield process


def doubled():
    """Mutants with a misspelled key too: a wrong value under a wrong name is ignored, until it is renamed."""
    rng = random.Random(SEED)  # noqa: S311  (repeatable, not secret)
    for mutant in mutants(SEED, COUNT):
        if mutant.config and (change := misspell(rng, json.loads(json.dumps(mutant.config)), False)):
            yield mutant._replace(text=to_text(mutant.base.syntax, change[1]))


def fixed(mutant):
    def check(document):
        linted = lint_document(document, reader=Reader(mutant.reader, stated=True))
        return Checked(linted, 0, linted.findings)

    document = parse_document(mutant.text.encode(), "accelerate.yaml" if mutant.base.syntax == "yaml" else "a.json")
    return fix_document(Fixed(document, check(document)), check, unsafe=False)


def test_what_was_accepted_stays_accepted(judge):
    cured = left_out = mended = 0
    for mutant in doubled():
        result = fixed(mutant)
        left_out += len(result.left_out)
        if not result.cured:
            continue
        cured += 1
        before = judge(mutant.case, engine=True)
        after = judge({**mutant.case, "text": result.document.text}, engine=True)
        assert not (before["accepted"] and after["accepted"] is False), (mutant.text, result.document.text, after)
        mended += before["accepted"] is False and bool(after["accepted"])
    # there was something to see
    assert cured > COUNT / 5
    assert mended > COUNT / 10
    assert left_out
