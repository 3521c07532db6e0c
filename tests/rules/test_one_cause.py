"""One cause draws one finding, and what matters to nobody draws none."""

from __future__ import annotations

import itertools
import json

import pytest

from zeroconf.document.edits import apply, remove_all
from zeroconf.document.read import parse_document
from zeroconf.keys import Releases
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

DEEPSPEED, TRAINER, ACCELERATE = (Reader(name, stated=True) for name in ("deepspeed", "trainer", "accelerate"))
BATCH = {"train_batch_size": 8, "gradient_clipping": 1.0}
ACCELERATE_YAML = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 2\n"


def lint(config, reader=None, release=(0, 19, 8), name="x.json"):
    text = config if isinstance(config, str) else json.dumps(config)
    found = lint_document(
        parse_document(text.encode(), name), reader=reader or Reader(), releases=Releases(release, (1, 15, 0))
    )
    return found.findings


def briefs(config, reader=None, **kwargs):
    return [(one.rule.code, one.severity, one.pointer) for one in lint(config, reader, **kwargs)]


def test_a_block_without_effect_is_one_finding():
    aio = {"block_size": 1048576, "queue_depth": 8, "single_submit": False, "overlap_events": True}
    assert briefs({**BATCH, "zero_optimization": {"stage": 2}, "aio": aio}) == [("ZC110", "info", "/aio")]


def test_several_keys_without_effect_are_one_finding_that_names_them_and_removes_them():
    zero = {"stage": 0, "overlap_comm": True, "reduce_bucket_size": 5, "allgather_bucket_size": 5}
    (one,) = lint({**BATCH, "zero_optimization": zero})
    assert (one.rule.code, one.pointer) == ("ZC110", "/zero_optimization")
    assert all(name in one.message for name in [*zero][1:])
    assert "stages 1 to 3" in one.message
    assert "stages 1 and 2" in one.message
    assert json.loads(apply(one.document.text, one.fix.edits)) == {**BATCH, "zero_optimization": {"stage": 0}}


def test_one_key_without_effect_is_reported_at_the_key():
    assert briefs({**BATCH, "zero_optimization": {"stage": 0, "overlap_comm": True}}) == [
        ("ZC110", "info", "/zero_optimization/overlap_comm")
    ]


TEXTS = {
    "one line": ("x.json", json.dumps({"z": dict.fromkeys("abcde", 1)})),
    "lines": ("x.json", json.dumps({"z": dict.fromkeys("abcde", 1)}, indent=2)),
    "HJSON": ("x.json", "{\n  z: {\n    a: 1\n    b: 1 // b\n    c: 1\n    d: 1\n    e: 1,\n  }\n}"),
    "block style": ("x.yaml", "z:\n  a: 1\n  b: 1 # b\n  c: 1\n  d: 1\n  e: 1\n"),
    "flow style": ("x.yaml", "z: {a: 1, b: 1, c: 1, d: 1, e: 1}\n"),
}


@pytest.mark.parametrize(("name", "text"), TEXTS.values(), ids=TEXTS)
def test_any_members_can_go_together(name, text):
    for size in range(1, 6):
        for keys in itertools.combinations("abcde", size):
            document = parse_document(text.encode(), name)
            after = parse_document(apply(text, remove_all(document, ("z",), keys)).encode(), name)
            assert after.root.plain() == {"z": {key: 1 for key in "abcde" if key not in keys}}


def test_members_that_stand_elsewhere_do_not_go():
    document = parse_document(b"a: &x {b: 1, c: 2}\nz:\n  <<: *x\n  d: 2\n", "x.yaml")
    assert remove_all(document, ("z",), ["b", "d"]) == ()


@pytest.mark.parametrize(
    ("config", "reader", "told"),
    [
        ({"train_batch_size": 8, "gradient_cliping": 1.0}, None, ["ZC102"]),
        ({"trainBatchSize": 8, "gradient_clipping": 1.0}, DEEPSPEED, ["ZC102"]),
        ({**BATCH, "zeroOptimization": {"stage": 2}, "gradient_accumulation_steps": 1}, TRAINER, ["ZC102"]),
        ({**BATCH, "zero_optimization": {"stage": 0}, "gradient_acumulation_steps": 1}, TRAINER, ["ZC102"]),
        ({"gradient_clipping": 1.0, "data": {"train_batch_size": 8}}, DEEPSPEED, ["ZC103"]),
        ({**BATCH, "optimizer": {"type": "AdamW", "params": {"lr": 0.1}}, "weight_dcay": 0.1}, DEEPSPEED, ["ZC104"]),
    ],
)
def test_what_is_missing_waits_for_its_misspelling(config, reader, told):
    assert [code for code, severity, _ in briefs(config, reader) if severity != "info" or code == "ZC233"] == told


def test_a_missing_field_of_accelerate_waits_too():
    assert [code for code, *_ in briefs(ACCELERATE_YAML, name="x.yaml")] == ["ZC274"]
    assert [code for code, *_ in briefs(ACCELERATE_YAML + "  gradient_cliping: 1.0\n", name="x.yaml")] == ["ZC132"]


def test_nothing_waits_for_less_than_itself():
    # the misplaced key may be another program's, which is a warning; without the block Accelerate stops for certain
    config = {**BATCH, "gradient_accumulation_steps": 1, "own": {"deep": {"zero_optimization": {"stage": 2}}}}
    assert ("ZC205", "error", "/zero_optimization") in briefs(config, TRAINER)


def test_elasticity_needs_no_batch_size():
    config = {"gradient_clipping": 1.0, "elasticity": {"enabled": True, "max_train_batch_size": 8}}
    assert briefs(config, DEEPSPEED) == [("ZC105", "error", "/elasticity")]
    assert "ZC202" not in {code for code, *_ in briefs(config, DEEPSPEED, release=(0, 18, 0))}
    config["elasticity"]["enabled"] = False
    assert "ZC202" in {code for code, *_ in briefs(config, DEEPSPEED, release=(0, 18, 0))}


INFERENCE = {
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu", "pin_memory": True}},
    "train_batch_size": 8,
    "train_micro_batch_size_per_gpu": 1,
}


def test_a_file_for_inference_saves_and_clips_nothing():
    assert lint(INFERENCE) == ()
    assert lint({"zero_optimization": {"stage": 3}})[0].rule.code == "ZC202"
    assert len(lint({"zero_optimization": {"stage": 3}})) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"optimizer": {"type": "AdamW", "params": {"lr": 0.1}}},
        {"gradient_clipping": 1.0},
        {"gradient_accumulation_steps": 4},
        {"scheduler": {"type": "WarmupLR", "params": {}}},
    ],
)
def test_a_file_that_trains_is_told_that_it_saves_shards(more):
    assert "ZC248" in {code for code, *_ in briefs({**INFERENCE, **more})}


def test_offloaded_states_show_training():
    cpu = {"device": "cpu", "pin_memory": True}
    zero = {"stage": 3, "offload_param": cpu, "offload_optimizer": cpu}
    assert "ZC248" in {code for code, *_ in briefs({**INFERENCE, "zero_optimization": zero})}


def test_a_null_micro_batch_is_refused_by_every_reader():
    config = {"train_micro_batch_size_per_gpu": None, "gradient_clipping": 1.0}
    assert briefs(config) == [("ZC202", "error", "/train_micro_batch_size_per_gpu")]
    # Lightning adds the micro batch where the file has no such key
    del config["train_micro_batch_size_per_gpu"]
    assert briefs({**config, "train_batch_size": None}) == [("ZC202", "warning", "/train_batch_size")]
    assert briefs({**config, "train_batch_size": None}, DEEPSPEED) == [("ZC202", "error", "/train_batch_size")]
    assert briefs({**config, "train_batch_size": None, "train_micro_batch_size_per_gpu": 1}, DEEPSPEED) == []


@pytest.mark.parametrize(
    ("config", "release", "at"),
    [
        ({"zero_optimization": {"stage": 3}, "tensor_parallel": {"autotp_size": 2}}, (0, 15, 4), "/tensor_parallel"),
        (
            {"zero_optimization": {"stage": 2, "zenflow": {"topk_ratio": 0.1}}},
            (0, 16, 9),
            "/zero_optimization/zenflow",
        ),
    ],
)
def test_of_a_key_newer_than_the_release_only_that_is_said(config, release, at):
    found = briefs({**BATCH, **config}, DEEPSPEED, release=release)
    assert [one for one in found if one[1] == "error"] == [("ZC106", "error", at)]


def test_the_engines_refusal_starts_with_the_key():
    config = {**BATCH, "zero_optimization": {"stage": 3}, "tensor_parallel": {"autotp_size": 2}}
    codes = {release: {code for code, _, _ in briefs(config, DEEPSPEED, release=release)} for release in RELEASES}
    assert [release for release in RELEASES if "ZC606" in codes[release]] == [(0, 16, 4), (0, 19, 3)]
    assert [release for release in RELEASES if "ZC106" in codes[release]] == [(0, 16, 3)]


RELEASES = [(0, 16, 3), (0, 16, 4), (0, 19, 3), (0, 19, 4)]


@pytest.mark.parametrize(("release", "key"), [((0, 19, 8), "thread_count"), ((0, 15, 4), "intra_op_parallelism")])
def test_in_a_block_that_nothing_reads_the_release_of_a_key_is_no_matter(release, key):
    aio = {"aio": {key: 2}}
    disk = {"offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}}
    at_2 = {**BATCH, "zero_optimization": {"stage": 2}, **aio}
    at_3 = {**BATCH, "zero_optimization": {"stage": 3, **disk}, **aio}
    found = [
        {code for code, _, at in briefs(config, DEEPSPEED, release=release) if "aio" in at} for config in (at_2, at_3)
    ]
    assert found == [{"ZC110"}, {"ZC105" if key == "thread_count" else "ZC106"}]


@pytest.mark.parametrize(
    ("block", "reader", "severity"),
    [
        ("scheduler", DEEPSPEED, "warning"),
        ("scheduler", TRAINER, "warning"),
        ("optimizer", DEEPSPEED, "warning"),
        ("optimizer", Reader(), "warning"),
        ("optimizer", ACCELERATE, "error"),  # which then takes none from the script
    ],
)
def test_an_empty_block_is_as_good_as_none(block, reader, severity):
    config = {**BATCH, "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 2}, block: {}}
    assert briefs(config, reader) == [("ZC222", severity, f"/{block}")]
