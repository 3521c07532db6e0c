"""A configuration that stands in another object: who ignores it, and where that is a program's own business."""

from __future__ import annotations

import json

import pytest

from zeroconf.document.edits import apply
from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

INNER = {"train_batch_size": 8, "zero_optimization": {"stage": 2}}


def lint(text, reader, name="ds.json"):
    read_by = Reader(reader, stated=True) if reader else Reader()
    return lint_document(parse_document(text.encode(), name), reader=read_by).findings


def wrapped(content, reader, name="ds.json"):
    text = content if isinstance(content, str) else json.dumps(content)
    return [one for one in lint(text, reader, name) if one.rule.code == "ZC123"]


@pytest.mark.parametrize("inner", [INNER, {"train_batch_size": 8}, {"fp16": {"enabled": True}}])
@pytest.mark.parametrize("name", ["deepspeed", "ds_config", "config", "anything"])
def test_nothing_beside_it(name, inner):
    content = {name: inner, "_comment": "ours"}
    for reader in ("deepspeed", "accelerate", "trainer"):
        (found,) = wrapped(content, reader)
        assert (found.severity, found.path) == ("error", (name,))
    (found,) = wrapped(content, None)
    assert found.severity == "info"
    assert json.loads(apply(found.document.text, found.fix.edits)) == inner
    # the keys inside are those of the configuration, not misplaced ones
    assert not {"ZC102", "ZC103", "ZC104"} & {one.rule.code for one in lint(json.dumps(content), "deepspeed")}


def test_a_file_of_a_program_that_takes_it_apart():
    content = {"model": "llama", "lr": 1e-5, "deepspeed": INNER}
    assert wrapped(content, None) == []
    assert wrapped(content, "trainer") == []
    (found,) = wrapped(content, "deepspeed")
    assert (found.severity, found.fix) == ("warning", None)


@pytest.mark.parametrize("reader", ["deepspeed", None])
def test_what_is_no_wrapper(reader):
    assert wrapped(INNER, reader) == []
    assert wrapped("deepspeed:\n  train_batch_size: 8\n  zero_optimization: {stage: 2}\n", reader, "a.yaml") == []
