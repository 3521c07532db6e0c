from __future__ import annotations

import json

import pytest

from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

OURS = {"ZC120", "ZC121", "ZC122"}
FILLED = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    "scheduler": {
        "type": "WarmupDecayLR",
        "params": {
            "warmup_min_lr": "auto",
            "warmup_max_lr": "auto",
            "warmup_num_steps": "auto",
            "total_num_steps": "auto",
        },
    },
    "zero_optimization": {
        "stage": 3,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
    },
    "steps_per_print": "auto",
}


def lint(config, reader, *, stated=True):
    document = parse_document(json.dumps(config).encode(), "ds_config.json")
    findings = lint_document(document, reader=Reader(reader, stated) if reader else Reader()).findings
    return {finding.pointer: finding for finding in findings if finding.rule.code in OURS}


def brief(config, reader, **kwargs):
    return {at: (found.rule.code, found.severity) for at, found in lint(config, reader, **kwargs).items()}


def test_what_the_trainer_fills_draws_nothing():
    assert lint(FILLED, "trainer") == {}
    assert lint(FILLED, None) == {}


def test_accelerate_leaves_betas_and_eps():
    assert brief(FILLED, "accelerate") == {
        "/optimizer/params/betas": ("ZC120", "error"),
        "/optimizer/params/eps": ("ZC120", "error"),
    }


def test_the_defaults_at_stage_0_are_harmless():
    zero = {"stage": 0, "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"}
    assert lint({"train_batch_size": "auto", "zero_optimization": zero}, "trainer") == {}


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        ({"zero_optimization": {"stage": 2, "overlap_comm": "auto"}}, "/zero_optimization/overlap_comm"),
        (
            {"zero_optimization": {"stage": 3, "prefetch_bucket_size": "auto"}},
            "/zero_optimization/prefetch_bucket_size",
        ),
        ({"bfloat16": {"enabled": "auto"}}, "/bfloat16/enabled"),
        ({"communication_data_type": "auto"}, "/communication_data_type"),
        ({"data_types": {"keep_in_fp32_modules": "auto"}}, "/data_types/keep_in_fp32_modules"),
        ({"tensor_parallel": {"autotp_size": "auto"}}, "/tensor_parallel/autotp_size"),
        ({"optimizer": {"type": "AdamW", "params": {"torch_adam": "auto"}}}, "/optimizer/params/torch_adam"),
        ({"_comment": "auto"}, "/_comment"),
        ({"msamp": {"enabled": "auto"}}, "/msamp/enabled"),
    ],
)
@pytest.mark.parametrize("reader", ["trainer", "accelerate"])
def test_every_other_auto_stops_accelerate(config, pointer, reader):
    assert brief(config, reader) == {pointer: ("ZC120", "error")}


def test_without_a_sign_of_a_filler_it_is_a_warning():
    config = {"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_comm": "auto"}}
    assert brief(config, None) == {"/zero_optimization/overlap_comm": ("ZC120", "warning")}
    assert brief(config | {"gradient_clipping": "auto"}, None)["/zero_optimization/overlap_comm"][1] == "error"


@pytest.mark.parametrize(
    ("config", "severity", "word"),
    [
        ({"train_batch_size": "auto"}, "error", "a text"),
        ({"gradient_clipping": "auto"}, "error", "a text"),
        ({"communication_data_type": "auto"}, "error", "a text"),
        ({"bf16": {"enabled": "auto"}}, "error", "off"),
        ({"zero_optimization": {"stage": "auto"}}, "error", "default, 0"),
        ({"zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}}, "warning", "default, 500000000"),
        ({"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}, "error", "optimizer"),
        ({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}}, "error", "scheduler"),
        ({"prescale_gradients": "auto"}, "warning", "counts as true"),
        ({"zero_force_ds_cpu_optimizer": "auto"}, "info", "counts as true"),
        ({"wall_clock_breakdown": "auto"}, "error", "stops the parser"),
    ],
)
def test_plain_deepspeed_replaces_nothing(config, severity, word):
    (finding,) = lint({"train_micro_batch_size_per_gpu": 1} | config, "deepspeed").values()
    assert (finding.rule.code, finding.severity) == ("ZC121", severity)
    assert word in finding.message


def test_an_auto_of_deepspeed_s_own_is_left_alone():
    config = {"train_batch_size": 8, "data_types": {"keep_in_fp32_modules": "auto"}}
    assert lint(config, "deepspeed") == {}


@pytest.mark.parametrize(
    ("zero", "pointer"),
    [
        ({"stage": "auto"}, "/zero_optimization/stage"),
        ({"stage": 2, "offload_optimizer": {"device": "auto"}}, "/zero_optimization/offload_optimizer/device"),
        (
            {"stage": 3, "stage3_gather_16bit_weights_on_model_save": "auto"},
            "/zero_optimization/stage3_gather_16bit_weights_on_model_save",
        ),
    ],
)
def test_what_accelerate_fills_with_a_constant(zero, pointer):
    assert brief({"train_batch_size": "auto", "zero_optimization": zero}, "trainer") == {pointer: ("ZC122", "warning")}


@pytest.mark.parametrize(
    "config",
    [
        {"pipeline": "auto"},
        {"optimizer": "auto"},
        {"activation_checkpointing": "auto"},
        {"checkpoint": {"writer": "auto"}},
        {"communication_data_type": "auto"},
        {"flops_profiler": {"enabled": "auto"}},
    ],
)
def test_an_auto_that_every_reader_refuses_is_an_error_whoever_reads(config):
    (found,) = lint({"train_batch_size": 8, **config}, None).values()
    assert (found.rule.code, found.severity) == ("ZC120", "error")
    assert "DeepSpeed's own parser" in found.message


@pytest.mark.parametrize(
    "config", [{"tensorboard": "auto"}, {"timers": "auto"}, {"autotuning": {"arg_mappings": "auto"}}, {"seed": "auto"}]
)
def test_an_auto_that_deepspeed_takes_is_a_warning_until_the_reader_is_known(config):
    assert {found.severity for found in lint({"train_batch_size": 8, **config}, None).values()} == {"warning"}


@pytest.mark.parametrize("reader", ["trainer", "accelerate"])
def test_accelerate_sets_zero_allow_untested_optimizer_only_for_an_optimizer_of_the_script(reader):
    allowed = {"train_batch_size": 8, "zero_allow_untested_optimizer": "auto", "zero_optimization": {"stage": 2}}
    optimizer = {"optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
    assert brief(allowed, reader) == {}
    assert brief(allowed | optimizer, reader) == {"/zero_allow_untested_optimizer": ("ZC120", "error")}
