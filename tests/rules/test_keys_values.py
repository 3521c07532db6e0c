from __future__ import annotations

import json

import pytest

from zeroconf.document.edits import apply
from zeroconf.document.read import parse_document
from zeroconf.keys import Releases, key_table
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

OURS = {f"ZC{number}" for number in range(111, 120)}


def lint(config, deepspeed=None):
    releases = Releases(deepspeed, (1, 15, 0), stated=True) if deepspeed else None
    document = parse_document(json.dumps({"train_batch_size": 8} | config).encode(), "ds_config.json")
    findings = lint_document(document, reader=Reader("deepspeed", stated=True), releases=releases).findings
    return [finding for finding in findings if finding.rule.code in OURS]


def only(config, **kwargs):
    (finding,) = lint(config, **kwargs)
    return finding


def brief(config, **kwargs):
    return [(finding.rule.code, finding.severity) for finding in lint(config, **kwargs)]


def fixed(finding):
    return json.loads(apply(finding.document.text, finding.fix.edits))


def zero(**keys):
    return {"zero_optimization": {"stage": 3} | keys}


@pytest.mark.parametrize(
    "config",
    [
        zero(offload_optimizer=True),
        zero(offload_optimizer="cpu"),
        zero(offload_optimizer={"device": None}),
        zero(offload_optimizer={"device": "nvme", "nvme_path": 3}),
        zero(contiguous_gradients=None),
        zero(overlap_comm=2),
        zero(stage=None),
        zero(reduce_bucket_size="big"),
        {"zero_optimization": 2},
        {"zero_optimization": []},
        {"fp16": None},
        {"bf16": True},
        {"activation_checkpointing": True},
        {"optimizer": None},
        {"fp16": {"enabled": False, "min_loss_scale": True}},
        {"communication_data_type": 16},
        {"gradient_clipping": None},
        {"wall_clock_breakdown": None},
        {"sequence_parallel_size": None},
        {"optimizer": {"type": "AdamW", "params": {"lr": [1]}}},
    ],
)
def test_wrong_types(config):
    assert brief(config) == [("ZC111", "error")]


@pytest.mark.parametrize(
    ("config", "wanted", "after"),
    [
        ({"fp16": True}, 'fp16 takes an object like {"enabled": true}, not true', {"enabled": True}),
        ({"bf16": False}, 'bf16 takes an object like {"enabled": false}, not false', {"enabled": False}),
        (
            zero(offload_optimizer="cpu"),
            'zero_optimization.offload_optimizer takes an object like {"device": "cpu"}, not "cpu"',
            {"device": "cpu"},
        ),
        (
            zero(offload_optimizer=True),
            'zero_optimization.offload_optimizer takes an object like {"device": "cpu"}, not true',
            None,
        ),
        (
            {"scheduler": "cosine"},
            'scheduler takes an object like {"type": ..., "params": {...}}, not "cosine"',
            None,
        ),
        ({"aio": 3}, "aio takes an object, not 3", None),
        ({"train_micro_batch_size_per_gpu": {}}, "takes an integer of at least 1, not an object", None),
    ],
)
def test_a_word_instead_of_a_block(config, wanted, after):
    finding = only(config)
    assert finding.rule.code == "ZC111"
    assert wanted in finding.message
    if after is None:
        assert finding.fix is None
    else:
        assert json.dumps(after) in json.dumps(fixed(finding))
        assert lint(fixed(finding)) == []


def test_what_no_file_can_hold():
    finding = only({"tensor_parallel": {"dtype": "bf16"}})
    assert (finding.rule.code, finding.severity) == ("ZC111", "error")


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (zero(stage=4), "one of 0, 1, 2, 3"),
        (zero(reduce_bucket_size=0), "above 0"),
        (zero(stage3_max_live_parameters=-1), "at least 0"),
        (zero(offload_optimizer={"ratio": 1.5}), "from 0 to 1"),
        (zero(reduce_bucket_size=1e30), "an integer"),
        ({"fp16": {"loss_scale": -1}}, "at least 0"),
        ({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}}, "at least 1"),
        ({"sequence_parallel_size": 0}, "at least 1"),
    ],
)
def test_out_of_range(config, wanted):
    finding = only(config)
    assert (finding.rule.code, finding.severity) == ("ZC112", "error")
    assert wanted in finding.message


def test_checks_that_older_releases_did_not_make():
    assert lint({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}}, deepspeed=(0, 19, 2)) == []
    assert lint({"fp16": {"loss_scale": -1}}, deepspeed=(0, 18, 0)) == []


@pytest.mark.parametrize(
    ("config", "meant"),
    [
        ({"communication_data_type": "bfp16"}, "bf16"),
        ({"communication_data_type": "bfloat16"}, "bf16"),
        (zero(offload_param={"device": "CPU"}), "cpu"),
        (zero(offload_param={"device": "disk"}), "nvme"),
        ({"checkpoint": {"tag_validation": "Of"}}, None),
        ({"gradient_allreduce_op": "average"}, None),
        ({"data_types": {"grad_accum_dtype": "FP32"}}, "fp32"),
    ],
)
def test_choices(config, meant):
    finding = only(config)
    assert (finding.rule.code, finding.severity) == ("ZC113", "error")
    assert (finding.fix is None) if meant is None else json.dumps(meant) in json.dumps(fixed(finding))


@pytest.mark.parametrize(
    "config",
    [
        {"communication_data_type": "FP16"},
        {"checkpoint": {"tag_validation": "WARN"}},
        {"checkpoint": {"tag_validation": "warn"}},
        {"gradient_allreduce_op": "SUM"},
        {"data_types": {"grad_accum_dtype": "float32"}},
        {"log_level": "WARNING"},
        {"gradient_accumulation_steps": None},
        {"steps_per_print": None},
        {"steps_per_print": 1e9},
        zero(overlap_comm=None),
        zero(reduce_bucket_size=5e8),
        zero(stage=3.0),
        zero(sub_group_size=0, stage3_max_live_parameters=0, stage3_param_persistence_threshold=0),
        zero(sub_group_size=1e14),
        zero(leaf_module={"classes": ["Block"]}),
        {"zero_optimization": True},
        {"bf16": None},
        {"aio": None},
        {"fp16": {"enabled": False, "min_loss_scale": 0}},
        {"fp16": {"enabled": True, "loss_scale": 128, "min_loss_scale": 0}},
        {"fp16": {"enabled": True, "initial_scale_power": 32}},
        {"gradient_clipping": -1},
        {"prescale_gradients": None},
        # in quotes: the rules about text name these
        {"gradient_accumulation_steps": "8"},
        {"fp16": {"enabled": "true"}},
        zero(reduce_bucket_size="5e8"),
        zero(stage="3"),
    ],
)
def test_what_deepspeed_takes_draws_nothing(config):
    assert lint(config) == []


def test_items():
    assert brief(zero(leaf_module={"classes": ["a", 1]})) == [("ZC114", "error")]


def test_classes_that_autocast_imports():
    names = ["torch.nn.Linear", "Linear", "Mine", "auto"]
    found = lint({"torch_autocast": {"enabled": True, "lower_precision_safe_modules": names}})
    assert [(one.rule.code, one.severity, one.path[-1]) for one in found] == [("ZC114", "error", n) for n in (1, 2, 3)]
    assert fixed(found[0])["torch_autocast"]["lower_precision_safe_modules"][1] == "torch.nn.Linear"
    assert found[1].fix is None
    assert lint({"torch_autocast": {"enabled": False, "lower_precision_safe_modules": names}}) == []


@pytest.mark.parametrize(
    ("config", "whole", "safe"),
    [
        (zero(stage3_prefetch_bucket_size=15106868.1), 15106868, True),
        ({"fp16": {"min_loss_scale": 1e-10}}, 1, False),
        (zero(stage=2.5), 2, False),
    ],
)
def test_fractions(config, whole, safe):
    finding = only(config)
    assert (finding.rule.code, finding.severity, finding.fix.safe) == ("ZC115", "error", safe)
    assert str(whole) in finding.fix.title


@pytest.mark.parametrize(
    ("config", "severity"),
    [
        (zero(overlap_comm=1), "info"),
        (zero(reduce_bucket_size=True), "info"),
        ({"prescale_gradients": 1}, "info"),
        ({"prescale_gradients": "later"}, "warning"),
        ({"optimizer": {"type": "AdamW", "params": {"torch_adam": "torch_impl"}}}, "info"),
    ],
)
def test_loose_values(config, severity):
    finding = only(config)
    assert (finding.rule.code, finding.severity) == ("ZC116", severity)
    assert lint(fixed(finding)) == []


@pytest.mark.parametrize(
    ("fp16", "deepspeed", "expected"),
    [
        ({"enabled": True, "min_loss_scale": 0}, None, [("ZC117", "error")]),
        ({"enabled": True, "loss_scale": 0, "loss_scale_window": -1}, None, [("ZC117", "error")]),
        ({"enabled": "auto", "min_loss_scale": 0}, None, [("ZC117", "warning")]),
        ({"enabled": True, "min_loss_scale": 0}, (0, 19, 2), [("ZC117", "warning")]),
        ({"enabled": False, "min_loss_scale": 0}, None, []),
    ],
)
def test_the_floor_of_the_loss_scale(fp16, deepspeed, expected):
    assert brief({"fp16": fp16}, deepspeed=deepspeed) == expected


ODD = [None, True, 0, -1, 1.5, 1e308, 10**400, "", "x", "auto", [], [None], {}, {"auto": []}, [[{}]]]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_no_value_anywhere_raises(odd):
    for path, block in key_table("deepspeed").blocks.items():
        config = dict.fromkeys(block.keys, odd)
        for step in reversed(path.split(".") if path else []):
            config = {step: config}
        text = json.dumps(config, allow_nan=True)
        for name in ("deepspeed", "trainer"):
            lint_document(parse_document(text.encode(), "ds_config.json"), reader=Reader(name, stated=True))


def scheduled(name="WarmupLR", **params):
    return {"scheduler": {"type": name, "params": params}}


def test_a_maximum_rate_of_null_is_the_optimizers():
    assert brief(scheduled(warmup_max_lr=None)) == []
    assert brief(scheduled("WarmupDecayLR", warmup_max_lr=None, total_num_steps=9)) == []
    assert brief(scheduled(warmup_min_lr=None)) == [("ZC111", "error")]
    assert brief(scheduled("WarmupCosineLR", warmup_min_ratio=None, total_num_steps=9)) == [("ZC111", "error")]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("cosine", ("ZC113", "warning")),
        ("Linear", ("ZC113", "warning")),
        (3, ("ZC111", "warning")),
        (None, ("ZC111", "info")),
        (["log"], ("ZC111", "error")),
    ],
)
def test_an_unknown_warm_up_runs_as_log(word, expected):
    found = only(scheduled(warmup_type=word))
    assert (found.rule.code, found.severity) == expected
    assert ('runs it as "log"' in found.message) == (found.severity != "error")


@pytest.mark.parametrize(
    ("config", "takes"),
    [
        (scheduled(warmup_type="linear"), True),
        ({"optimizer": {"type": "Muon", "params": {"ns_method": "gram"}}}, True),
        ({"optimizer": {"type": "Muon", "params": {"ns_method": "GRAM"}}}, False),
        ({"communication_data_type": "Bf16"}, True),
        ({"log_level": "Info"}, True),
        ({"gradient_allreduce_op": "Mean"}, True),
        ({"checkpoint": {"tag_validation": "wARN"}}, True),
        ({"checkpoint": {"writer": {"type": "Fast", "data_parallel": "Replica"}}}, True),
        ({"autotuning": {"enabled": True, "metric": "Latency"}}, False),
        ({"autotuning": {"enabled": True, "tuner_type": "Random"}}, False),
        ({"expert_parallel": {"enabled": True, "score_func": "Softmax"}}, False),
        ({"data_types": {"grad_accum_dtype": "FP32"}}, False),
        (zero(offload_optimizer={"device": "CPU"}), False),
    ],
)
def test_case_counts_where_the_reader_does_not_lower_it(config, takes):
    assert [finding.rule.code for finding in lint(config)] == [] if takes else ["ZC113"]


@pytest.mark.parametrize(
    ("reader", "expected"), [("deepspeed", []), ("accelerate", ["error"]), ("trainer", ["error"]), (None, ["warning"])]
)
@pytest.mark.parametrize("config", [{"wall_clock_breakdown": 2.0}, {"flops_profiler": {"enabled": 2.0}}])
def test_a_whole_number_with_a_point_combines_where_hjson_reads(config, reader, expected):
    document = parse_document(json.dumps({"train_batch_size": 8} | config).encode(), "ds_config.json")
    found = lint_document(document, reader=Reader(reader, stated=True) if reader else Reader()).findings
    assert [one.severity for one in found if one.rule.code == "ZC111"] == expected
