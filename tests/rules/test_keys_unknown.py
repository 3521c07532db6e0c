from __future__ import annotations

import json

import pytest

from zeroconf.document.edits import apply
from zeroconf.document.read import parse_document
from zeroconf.keys import Releases
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader
from zeroconf.rules.keys.near import distance_up_to, nearest

BATCH = {"train_batch_size": 8}


def lint(config, deepspeed=None, reader=None):
    releases = Releases(deepspeed, (1, 15, 0), stated=True) if deepspeed else None
    document = parse_document(json.dumps(BATCH | config).encode(), "ds_config.json")
    findings = lint_document(document, reader=reader or Reader(), releases=releases).findings
    return [finding for finding in findings if "ZC101" <= finding.rule.code <= "ZC104"]


def only(config, **kwargs):
    (finding,) = lint(config, **kwargs)
    return finding


def fixed(finding):
    return json.loads(apply(finding.document.text, finding.fix.edits))


def test_a_mistyped_key_is_refused_by_a_strict_block_and_renamed():
    finding = only({"zero_optimization": {"stage": 2, "overlap_com": True}})
    assert (finding.rule.code, finding.severity, finding.pointer) == (
        "ZC101",
        "error",
        "/zero_optimization/overlap_com",
    )
    assert "overlap_comm" in finding.message
    assert "refuses" in finding.message
    assert finding.document.text[finding.start : finding.end] == '"overlap_com"'
    assert finding.fix.safe
    assert fixed(finding)["zero_optimization"] == {"stage": 2, "overlap_comm": True}


def test_a_rename_is_unsafe_when_the_value_does_not_fit():
    assert not only({"zero_optimization": {"overlap_com": "yes please"}}).fix.safe


def test_a_name_that_is_taken_is_not_offered():
    finding = only({"zero_optimization": {"overlap_com": True, "overlap_comm": True}})
    assert finding.fix.title == "Remove overlap_com"
    assert not finding.fix.safe


def test_fp16_refuses_unknown_keys_since_0_17_1_only():
    config = {"fp16": {"enabled": True, "opt_level": "O2"}}
    assert only(config).severity == "error"
    assert (only(config, deepspeed=(0, 17, 0)).rule.code, only(config, deepspeed=(0, 17, 0)).severity) == (
        "ZC104",
        "warning",
    )


@pytest.mark.parametrize("name", ["loss_scale", "loss_scale_window", "hysteresis", "initial_scale_power"])
def test_loss_scaling_keys_leave_bf16_safely(name):
    finding = only({"bf16": {"enabled": True, name: 1}})
    assert (finding.rule.code, finding.severity, finding.fix.safe) == ("ZC101", "error", True)
    assert fixed(finding)["bf16"] == {"enabled": True}


def test_an_unknown_auto_is_dropped_by_deepspeed_and_stops_a_filler():
    config = {"bf16": {"enabled": True, "loss_scale": "auto"}}
    assert only(config, reader=Reader("deepspeed", stated=True)).severity == "warning"
    assert only(config, reader=Reader("trainer", stated=True)).severity == "error"


@pytest.mark.parametrize(
    ("block", "written", "meant"),
    [
        ("", "zero_optimisation", "zero_optimization"),
        ("", "gradient_acumulation_steps", "gradient_accumulation_steps"),
        ("", "gradient_clip", "gradient_clipping"),
        ("", "Gradient-Clipping", "gradient_clipping"),
        ("", "max_grad_norm", "gradient_clipping"),
        ("", "per_device_train_batch_size", "train_micro_batch_size_per_gpu"),
        ("checkpoint", "load_universal_checkpoint", "load_universal"),
        ("data_types", "grad_accumulation_dtype", "grad_accum_dtype"),
        ("activation_checkpointing", "partition_activation", "partition_activations"),
        ("aio", "block_sise", "block_size"),
        ("optimizer", "parms", "params"),
    ],
)
def test_a_mistyped_key_that_is_ignored_is_an_error(block, written, meant):
    finding = only({block: {written: {}}} if block else {written: {}})
    assert (finding.rule.code, finding.severity) == ("ZC102", "error")
    assert finding.message.endswith(f"the key is {meant}")
    after = fixed(finding)
    assert meant in (after[block] if block else after)


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"offload_optimizer": {"device": "cpu"}}, "zero_optimization.offload_optimizer"),
        ({"optimizer": {"type": "AdamW", "weight_decay": 0.01}}, "optimizer.params.weight_decay"),
        ({"scheduler": {"type": "WarmupLR", "warmup_num_steps": 10}}, "scheduler.params.warmup_num_steps"),
        ({"zero_optimization": {"aio": {"block_size": 8}}}, "aio"),
        ({"zero_optimization": {"zero_allow_untested_optimizer": True}}, "zero_allow_untested_optimizer"),
        (
            {"zero_optimization": {"offload_optimizer": {"device": "cpu", "buffer_size": 9}}},
            "zero_optimization.offload_param.buffer_size",
        ),
        ({"zero3_save_16bit_model": True}, "zero_optimization.stage3_gather_16bit_weights_on_model_save"),
        ({"log": {"steps_per_print": 9}}, "steps_per_print"),
        ({"monitor_config": {"csv_monitor": {"enabled": True}}}, "csv_monitor"),
    ],
)
def test_a_misplaced_key_moves_where_it_is_read(config, place):
    finding = only(config)
    assert (finding.rule.code, finding.severity, finding.fix.safe) == ("ZC103", "error", True)
    at = fixed(finding)
    for step in place.split("."):
        at = at[step]
    assert not lint(fixed(finding)) or place in {"steps_per_print", "csv_monitor"}


@pytest.mark.parametrize(
    ("config", "says", "after"),
    [
        (
            {"zero_optimisation": {"stage": 3}, "zero_optimization": {"stage": 2}},
            "zero_optimization stands there too, and only that one counts",
            {"zero_optimization": {"stage": 2}},
        ),
        (
            {"offload_optimizer": {"device": "none"}, "zero_optimization": {"offload_optimizer": {"device": "cpu"}}},
            "it belongs in zero_optimization, where it stands already: only that one counts",
            {"zero_optimization": {"offload_optimizer": {"device": "cpu"}}},
        ),
        (
            {"zero_stage": 3, "zero_optimization": {"stage": 2}},
            "its own key is zero_optimization.stage, where it stands already: only that one counts",
            {"zero_optimization": {"stage": 2}},
        ),
        (
            {"log": {"steps_per_print": 9}, "steps_per_print": 5},
            "only the one at the top level counts",
            {"log": {}, "steps_per_print": 5},
        ),
    ],
)
def test_where_the_right_key_is_there_too_the_unread_one_goes(config, says, after):
    finding = only(config)
    assert finding.message.endswith(says)
    assert not finding.fix.safe
    assert fixed(finding) == BATCH | after


def test_a_field_of_accelerate_without_counterpart_has_no_place():
    finding = only({"zero3_init_flag": True})
    assert (finding.rule.code, finding.severity, finding.fix) == ("ZC103", "error", None)


def test_a_key_of_two_blocks_names_both_and_moves_nowhere():
    finding = only({"zero_optimization": {"device": "cpu"}})
    assert finding.rule.code == "ZC103"
    assert "in zero_optimization.offload_param or in zero_optimization.offload_optimizer" in finding.message
    assert finding.fix is None


def test_a_word_that_other_programs_use_is_only_a_warning():
    assert only({"seed": 42}).severity == "warning"


@pytest.mark.parametrize(
    "config",
    [
        {"_comment": "x", "$schema": "y", "_zeroconf": {"ignore": {}}, "// note": "z", "comment": "c", "#": 1},
        {"_read_the_docs": "x"},
        {"msamp": {"enabled": True, "opt_level": "O2"}, "veloc_config": {"host_cache": 1}, "datastates_ckpt": {}},
        {"optimizer": {"type": "Muon", "_note": "x", "params": {"lr": 1e-3, "anything": {"goes": 1}}}},
        {"zero_optimization": {"stage": 3, "max_live_parameters": 1e9, "gather_16bit_weights_on_model_save": True}},
        {"sequence_parallel_size": 2, "seq_parallel_communication_data_type": "fp16"},
    ],
)
def test_comments_other_programs_and_short_names_are_left_alone(config):
    assert lint(config) == []


def test_keys_that_nobody_reads_are_a_warning():
    finding = only({"cuda_visible_devices": "0"})
    assert (finding.rule.code, finding.severity, finding.fix.safe) == ("ZC104", "warning", False)
    assert "cuda_visible_devices" not in fixed(finding)


@pytest.mark.parametrize("value", [None, [], [1], "x", 1e999, {"a": [None]}, True])
def test_no_value_of_an_unknown_key_raises(value):
    assert lint({"zero_optimization": {"nope": value, "stage": 2}, "nope_at_all": value})


def test_the_last_of_two_is_read():
    text = b'{"train_batch_size": 8, "zero_optimization": {"nope": 1}, "zero_optimization": {"stage": 1}}'
    findings = lint_document(parse_document(text, "ds_config.json")).findings
    assert not [finding for finding in findings if finding.rule.code == "ZC101"]


def test_distance_is_that_of_optimal_string_alignment():
    assert distance_up_to("stage", "stage", 3) == 0
    assert distance_up_to("stgae", "stage", 3) == 1
    assert distance_up_to("kitten", "sitting", 3) == 3
    assert distance_up_to("kitten", "sitting", 2) == 3
    assert distance_up_to("ca", "abc", 3) == 3


def test_nearest_wants_one_candidate():
    assert nearest("", "fp8", ["fp16", "bf16"]) is None
    assert nearest("", "abcdefgx", ["abcdefgy", "abcdefgz"]) is None
    assert nearest("", "optimizr", ["optimizer", "scheduler"]) == "optimizer"
    assert nearest("", "gradient", ["gradient_clipping", "gradient_accumulation_steps"]) is None


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("trainBatchSize", "train_batch_size"),
        ("trainMicroBatchSizePerGPU", "train_micro_batch_size_per_gpu"),
        ("gradientAccumulationSteps", "gradient_accumulation_steps"),
        ("Zero-Optimization", "zero_optimization"),
        ("BF16", "bf16"),
    ],
)
def test_a_key_in_another_case_is_renamed(word, name):
    finding = only({word: 1})
    assert finding.rule.code == "ZC102"
    assert f"the key is {name}" in finding.message or f"{name} stands there too" in finding.message


def test_a_misplaced_key_of_a_newer_release_is_told_its_home_and_that_release():
    config = {"train_batch_size": 8, "zero_optimization": {"stage": 3, "super_offload": True}}
    document = parse_document(json.dumps(config).encode(), "ds_config.json")
    found = lint_document(document, releases=Releases((0, 17, 5), (1, 15, 0))).findings
    (one,) = [one for one in found if one.rule.code == "ZC101"]
    assert "since 0.18.0 it belongs in zero_optimization.offload_optimizer)" in one.message
