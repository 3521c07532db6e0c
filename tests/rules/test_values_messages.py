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


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (32, "a sum of 31 like it, is rounded to multiples of 2^(4 - 7) = 1/8 of itself"),
        (33, "a sum of 32 like it, is rounded to multiples of 2^(5 - 7) = 1/4 of itself"),
        (256, "a sum of 255 like it, is rounded to whole multiples of itself"),
        (257, "a sum of 256 like it, is lost"),
    ],
)
def test_what_bf16_keeps_of_an_addend(steps, says):
    config = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}, "gradient_accumulation_steps": steps}
    assert says in finding(config, "ZC217").message


CPU = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
PLAIN = {"torch_adam": True, "adam_w_mode": False}


@pytest.mark.parametrize(
    ("name", "params", "more", "says"),
    [
        ("AdamW", {}, {}, "AdamW without offload_optimizer is FusedAdam,"),
        ("AdamW", {}, CPU, "AdamW with CPU offload is DeepSpeedCPUAdam,"),
        ("adam", {"torch_adam": True}, CPU, "Adam with torch_adam is torch's AdamW,"),
        ("Adam", PLAIN, CPU, "Adam with torch_adam and adam_w_mode false is torch's Adam,"),
        ("lion", {}, CPU, "Lion with CPU offload is DeepSpeedCPULion,"),
        ("Lamb", {}, CPU, "Lamb is FusedLamb,"),
    ],
)
def test_the_class_that_gets_the_parameters(name, params, more, says):
    config = {"optimizer": {"type": name, "params": {**params, "learning_rate": 0.1}}, **more}
    message = finding(config, "ZC224").message
    assert message.startswith(f"{says} which takes no learning_rate; the key is lr")


def adamw(**params):
    return {"optimizer": {"type": "AdamW", "params": params}}


def scheduler(name, **params):
    return {"scheduler": {"type": name, "params": params}}


# near another name, yet no fix could keep what was meant
@pytest.mark.parametrize(
    ("code", "config", "says"),
    [
        ("ZC224", adamw(lr=1, learning_rate=2), "the key is lr, which is there too"),
        ("ZC224", adamw(beta1=0.9), "the key is betas"),
        ("ZC224", adamw(something=1), "it takes adam_w_mode, "),
        ("ZC231", scheduler("WarmupCosineLR", total_num_steps=9, warmup_max_ratio=1), "it takes cos_min_ratio, "),
        ("ZC231", scheduler("LRRangeTest", lr_range_test_max_lr=1), "it takes last_batch_iteration, "),
        ("ZC220", {"optimizer": {"type": "Adan"}}, "it has Adam, "),
        ("ZC220", {"optimizer": {"type": "AdamW8bit"}}, "it has Adam, "),
    ],
)
def test_no_fix_where_it_would_be_a_guess(code, config, says):
    found = finding(config, code)
    assert says in found.message
    assert found.fix is None


def test_of_two_words_for_one_parameter_one_is_renamed():
    config = adamw(learning_rate=1, learnin_rate=2, base_lr=3)
    document = parse_document(json.dumps(config).encode(), "ds_config.json")
    fixes = [one.fix for one in lint_document(document).findings if one.rule.code == "ZC224"]
    assert [fix.title for fix in fixes if fix] == ["Rename to lr"]


@pytest.mark.parametrize(
    ("code", "config", "safe"),
    [
        ("ZC224", adamw(learning_rate=2e-5), True),
        ("ZC224", adamw(momentum=0.9), False),
        ("ZC220", {"optimizer": {"type": "sgd"}}, True),
        ("ZC220", {"optimizer": {"type": "adamww"}}, False),
        ("ZC229", scheduler("warmuplr"), True),
        ("ZC229", scheduler("cosine"), False),
    ],
)
def test_a_fix_is_safe_only_where_nothing_else_was_meant(code, config, safe):
    assert finding(config, code).fix.safe is safe


FIXES = [
    ("ZC220", {"optimizer": {"type": "adamww"}}, {"optimizer": {"type": "AdamW"}}),
    ("ZC220", {"optimizer": {"type": "sgd"}}, {"optimizer": {"type": "SGD"}}),
    ("ZC220", {"optimizer": {"type": "FusedAdam"}}, {"optimizer": {"type": "AdamW"}}),
    ("ZC224", adamw(learning_rate=2e-5), adamw(lr=2e-5)),
    ("ZC224", adamw(beta=[0.9, 0.95]), adamw(betas=[0.9, 0.95])),
    ("ZC224", adamw(wd=0.1), adamw(weight_decay=0.1)),
    ("ZC224", adamw(lr=1, weight_deacy="auto"), adamw(lr=1, weight_decay="auto")),
    ("ZC224", adamw(lr=1, fused=True), adamw(lr=1)),
    ("ZC229", scheduler("WarmupDecay"), scheduler("WarmupDecayLR")),
    ("ZC229", scheduler("steplr"), scheduler("StepLR")),
    ("ZC229", scheduler("cosine"), scheduler("WarmupCosineLR")),
    ("ZC231", scheduler("WarmupLR", warmup_steps=9), scheduler("WarmupLR", warmup_num_steps=9)),
    ("ZC231", scheduler("WarmupLR", num_warmup_steps=9), scheduler("WarmupLR", warmup_num_steps=9)),
    ("ZC231", scheduler("WarmupLR", max_lr=0.1), scheduler("WarmupLR", warmup_max_lr=0.1)),
    ("ZC231", scheduler("OneCycle", cycle_min_lr=0, max_lr=1), scheduler("OneCycle", cycle_min_lr=0, cycle_max_lr=1)),
    ("ZC231", scheduler("WarmupDecayLR", total_steps=9), scheduler("WarmupDecayLR", total_num_steps=9)),
    ("ZC231", scheduler("WarmupLR", total_num_steps=9), scheduler("WarmupLR")),
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
        facts = {"reader": example.reader, "releases": example.releases, "options": {}}
        for variant in variants(json.loads(example.text), value):
            document = parse_document(json.dumps(variant).encode(), "ds_config.json")
            facts["config"] = DsConfig(document, document.root)
            assert list(rule.check(*(facts[need] for need in rule.needs))) is not None
