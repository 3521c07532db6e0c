from __future__ import annotations

import json

import pytest

from zeroconf.document.edits import apply
from zeroconf.document.read import parse_document
from zeroconf.keys import Releases
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

OURS = {f"ZC{number}" for number in range(105, 111)}
REMOVED = [
    "nebula",
    "compression_training",
    "amp",
    "quantize_training",
    "sparse_gradients",
    "eigenvalue",
    "sparse_attention",
    "elasticity",
    "graph_harvesting",
    "curriculum_learning",
    "progressive_layer_drop",
]


def lint(config, deepspeed=None, reader=None):
    releases = Releases(deepspeed, (1, 15, 0), stated=True) if deepspeed else None
    document = parse_document(json.dumps({"train_batch_size": 8} | config).encode(), "ds_config.json")
    findings = lint_document(document, reader=reader or Reader(), releases=releases).findings
    return [finding for finding in findings if finding.rule.code in OURS]


def only(config, **kwargs):
    (finding,) = lint(config, **kwargs)
    return finding


def brief(finding):
    return finding.rule.code, finding.severity


def fixed(finding):
    return json.loads(apply(finding.document.text, finding.fix.edits))


def zero(**keys):
    return {"zero_optimization": {"stage": 2} | keys}


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_block_is_an_error_even_when_it_is_off(name):
    finding = only({name: {"enabled": False}})
    assert brief(finding) == ("ZC105", "error")
    assert "refuses the file, even where it is switched off" in finding.message
    assert finding.fix.safe
    assert name not in fixed(finding)
    assert not only({name: {"enabled": True}}).fix.safe


@pytest.mark.parametrize(
    ("config", "instead"),
    [
        ({"amp": {"enabled": True}}, "use fp16, bf16 or torch_autocast"),
        ({"curriculum_learning": {}}, "use data_efficiency.data_sampling.curriculum_learning"),
        ({"elasticity": {}}, "use train_batch_size, train_micro_batch_size_per_gpu and gradient_accumulation_steps"),
        ({"sparse_gradients": True}, "use sparse=True on the embedding, which needs no key"),
        ({"compile": {"enabled": True}}, "use engine.compile()"),
    ],
)
def test_what_replaces_a_removed_key_is_named(config, instead):
    assert only(config).message.endswith(f"; {instead}")


@pytest.mark.parametrize("name", sorted(set(REMOVED) - {"curriculum_learning"}))
def test_before_its_removal_a_block_is_valid(name):
    assert lint({name: {"enabled": True}}, deepspeed=(0, 19, 6)) == []


@pytest.mark.parametrize("name", ["mics_shard_size", "mics_hierarchical_params_gather", "zeropp_loco_param"])
def test_removed_zero_keys(name):
    assert brief(only(zero(**{name: -1}))) == ("ZC105", "error")
    assert lint(zero(**{name: -1}), deepspeed=(0, 19, 6)) == []


def test_aio_threads_by_release():
    stage_3 = {"zero_optimization": {"stage": 3}}
    old, new = stage_3 | {"aio": {"thread_count": 8}}, stage_3 | {"aio": {"intra_op_parallelism": 8}}
    assert lint(old, deepspeed=(0, 15, 4)) == []
    assert lint(new) == []
    finding = only(old)
    assert brief(finding) == ("ZC105", "error")
    assert "ignores it" in finding.message
    assert finding.fix.safe
    assert fixed(finding)["aio"] == {"intra_op_parallelism": 8}
    finding = only(new, deepspeed=(0, 15, 4))
    assert brief(finding) == ("ZC106", "error")
    assert fixed(finding)["aio"] == {"thread_count": 8}


def test_a_key_that_an_old_release_does_not_know_yet():
    finding = only(
        {"zero_optimization": {"stage": 3, "zero_quantized_nontrainable_weights": True}}, deepspeed=(0, 9, 5)
    )
    assert brief(finding) == ("ZC106", "error")
    assert "DeepSpeed 0.9.5 refuses the file" in finding.message


@pytest.mark.parametrize(
    ("old", "value", "new", "becomes"),
    [
        ("cpu_offload", True, "offload_optimizer", {"device": "cpu"}),
        (
            "stage3_gather_fp16_weights_on_model_save",
            True,
            "stage3_gather_16bit_weights_on_model_save",
            True,
        ),
        ("cpu_offload_param", True, "offload_param", {"device": "cpu"}),
    ],
)
def test_old_names_get_their_new_form(old, value, new, becomes):
    finding = only({"zero_optimization": {"stage": 3, old: value}})
    assert brief(finding) == ("ZC107", "warning")
    assert finding.fix.safe
    assert fixed(finding)["zero_optimization"] == {"stage": 3, new: becomes}


def test_an_old_name_that_switches_nothing_on_is_no_warning():
    finding = only(zero(cpu_offload=False))
    assert brief(finding) == ("ZC107", "info")
    assert fixed(finding)["zero_optimization"] == {"stage": 2}


def test_bfloat16_is_not_read_by_the_fillers():
    config = {"bfloat16": {"enabled": True}}
    assert brief(only(config)) == ("ZC107", "warning")
    assert brief(only(config, reader=Reader("accelerate", stated=True))) == ("ZC107", "error")
    assert fixed(only(config))["bf16"] == {"enabled": True}


@pytest.mark.parametrize(
    "config",
    [
        zero(cpu_offload=False, offload_optimizer={"device": "cpu"}),
        {"zero_optimization": {"stage": 3, "cpu_offload_param": True, "offload_param": {"device": "cpu"}}},
        {
            "zero_optimization": {
                "stage": 3,
                "gather_16bit_weights_on_model_save": True,
                "stage3_gather_fp16_weights_on_model_save": True,
            }
        },
        {"zero_optimization": {"stage": 3, "max_live_parameters": 5, "stage3_max_live_parameters": 6}},
    ],
)
def test_two_names_of_one_key_are_an_error(config):
    finding = only(config)
    assert brief(finding) == ("ZC108", "error")
    assert lint(fixed(finding)) == []


def test_one_of_two_names_with_one_value_goes_safely():
    assert only({"zero_optimization": {"stage": 3, "max_live_parameters": 5, "stage3_max_live_parameters": 5}}).fix.safe


def test_bfloat16_beside_bf16_is_not_read():
    assert brief(only({"bf16": {"enabled": False}, "bfloat16": {"enabled": True}})) == ("ZC108", "error")
    assert "ZC108" not in {one.rule.code for one in lint({"bf16": None, "bfloat16": {"enabled": True}})}
    finding = only({"bf16": {"enabled": True}, "bfloat16": {"enabled": True}})
    assert brief(finding) == ("ZC108", "info")
    assert finding.fix.safe


def test_max_grad_norm_moves_to_gradient_clipping():
    finding = only({"optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "max_grad_norm": 0.5}}})
    assert brief(finding) == ("ZC107", "error")
    after = fixed(finding)
    assert after["gradient_clipping"] == 0.5
    assert after["optimizer"]["params"] == {"lr": 1e-3}


def test_what_deepspeed_drops_is_not_there():
    assert lint(zero(cpu_offload="auto", offload_optimizer={"device": "cpu"})) == []


def test_dead_keys():
    assert brief(only(zero(allgather_partitions=True))) == ("ZC109", "info")
    assert brief(only({"disable_allgather": False})) == ("ZC109", "info")
    assert brief(only({"pipeline": {"stages": 4}})) == ("ZC109", "info")
    assert brief(only(zero(legacy_stage1=False))) == ("ZC109", "info")
    assert brief(only(zero(legacy_stage1=True))) == ("ZC109", "error")


@pytest.mark.parametrize(
    ("stage", "key"), [(2, "stage3_max_live_parameters"), (1, "sub_group_size"), (3, "allgather_bucket_size")]
)
def test_keys_that_the_stage_does_not_read(stage, key):
    finding = only({"zero_optimization": {"stage": stage, key: 1000}})
    assert brief(finding) == ("ZC110", "info")
    assert f"no effect at stage {stage}" in finding.message
    assert lint({"zero_optimization": {"stage": "ZERO_STAGE", key: 1000}}) == []


@pytest.mark.parametrize(
    "value", ["5e8", -1, "many", True, {}, None, 1.5, "auto"], ids=["quoted", *map(str, range(6)), "auto"]
)
def test_a_value_that_is_wrong_at_every_stage_is_told_once(value):
    config = {"train_batch_size": 8, "zero_optimization": {"stage": 2, "stage3_max_live_parameters": value}}
    findings = lint_document(parse_document(json.dumps(config).encode(), "ds_config.json")).findings
    about = [found for found in findings if found.pointer.endswith("stage3_max_live_parameters")]
    assert len(about) == 1, about


def test_offload_blocks_are_told_about_elsewhere():
    assert lint(zero(offload_param={"device": "cpu", "pin_memory": True})) == []
    assert lint({"zero_optimization": {"stage": 0, "offload_optimizer": {"device": "none"}}}) == []
