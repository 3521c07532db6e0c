"""Messages show their arithmetic, point at the right place, and their fixes cure."""

from __future__ import annotations

import json

import pytest

from zeroconf.document.edits import apply
from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.rules import RULES
from zeroconf.rules.facts import DsConfig, Reader
from zeroconf.rules.page import read_page

TRAINER = Reader("trainer", stated=True)
OURS = [rule for rule in RULES.values() if "ZC200" < rule.code < "ZC270"]


def finding(config, code, reader=Reader()):  # noqa: B008  (frozen)
    document = parse_document(json.dumps(config).encode(), "ds_config.json")
    return next(one for one in lint_document(document, reader=reader).findings if one.rule.code == code)


def fixed(config, code, reader=Reader()):  # noqa: B008  (frozen)
    found = finding(config, code, reader)
    assert found.fix is not None
    return json.loads(apply(found.document.text, found.fix.edits))


def test_the_batch_product_shows_its_factors():
    config = {"train_batch_size": 100, "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 8}
    message = finding(config, "ZC201").message
    assert "train_micro_batch_size_per_gpu 3 x gradient_accumulation_steps 8 = 24" in message
    assert "96 or 120" in message


def test_buckets_are_shown_in_elements_and_bytes():
    config = {"zero_optimization": {"stage": 2, "reduce_bucket_size": 1e9, "overlap_comm": True}}
    assert "2 x 1.0e+09 elements x 2 bytes = 4.0 GB" in finding(config, "ZC258").message


def test_a_missing_key_is_told_at_its_block():
    found = finding({"train_batch_size": 8, "zero_optimization": {"stage": 3}}, "ZC248")
    assert found.document.text[found.start : found.end] == '"zero_optimization"'
    assert found.pointer == "/zero_optimization/stage3_gather_16bit_weights_on_model_save"


FIXES = [
    ("ZC202", {"zero_optimization": {}}, {"zero_optimization": {}, "train_micro_batch_size_per_gpu": "auto"}),
    ("ZC203", {"train_batch_size": 8.0}, {"train_batch_size": 8}),
    ("ZC205", {"train_batch_size": 8}, {"train_batch_size": 8, "zero_optimization": {"stage": 0}}),
    ("ZC229", {"scheduler": {"type": "warmuplr", "params": {}}}, {"scheduler": {"type": "WarmupLR", "params": {}}}),
    (
        "ZC231",
        {"scheduler": {"type": "WarmupDecayLR", "params": {}}},
        {"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto"}}},
    ),
    ("ZC233", {"train_batch_size": "auto"}, {"train_batch_size": "auto", "gradient_clipping": "auto"}),
    (
        "ZC262",
        {"tensor_parallel": {"tp": {"tp_size": 2}}},
        {"tensor_parallel": {"tp": {"tp_size": 2}, "autotp_size": 2}},
    ),
]


@pytest.mark.parametrize(("code", "before", "after"), FIXES, ids=[row[0] for row in FIXES])
def test_the_fix(code, before, after):
    assert fixed(before, code, TRAINER) == after


@pytest.mark.parametrize("rule", OURS, ids=[rule.code for rule in OURS])
def test_the_example_is_cured_by_its_fix(rule):
    page = read_page(rule)
    reader, releases = page.example.reader, page.example.releases
    text = page.example.text
    while True:
        document = parse_document(text.encode(), "ds_config.json")
        ours = [one for one in lint_document(document, reader=reader, releases=releases).findings if one.rule == rule]
        fixes = [one.fix for one in ours if one.fix]
        if not fixes:
            break
        text = apply(text, fixes[0].edits)
    assert json.loads(text)
    assert not [one for one in ours if one.fix]


HOSTILE = [None, True, -1, 0.5, 10**400, float("inf"), "auto", "x", [], [[1]], {}, {"enabled": {"a": 1}}]


def variants(config, value):
    """The configuration with the value in the place of each block, and of each key of it."""
    for block, inner in config.items():
        yield {**config, block: value}
        for key in inner if isinstance(inner, dict) else ():
            yield {**config, block: {**inner, key: value}}


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_no_value_raises(value):
    for rule in OURS:
        example = read_page(rule).example
        facts = {"reader": example.reader, "releases": example.releases}
        for variant in variants(json.loads(example.text), value):
            document = parse_document(json.dumps(variant).encode(), "ds_config.json")
            facts["config"] = DsConfig(document, document.root)
            assert list(rule.check(*(facts[need] for need in rule.needs))) is not None
