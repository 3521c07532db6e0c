"""Values of a wrong kind, by whether anything computes with them: who refuses them, and how bad that is."""

from __future__ import annotations

import json

import pytest

from zeroconf.document.edits import apply
from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

OURS = {"ZC008", "ZC111", "ZC112", "ZC113", "ZC114", "ZC115", "ZC121", "ZC239", "ZC255"}
NVME = {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}}}
PROFILED = {"enabled": True, "profile_step": 5}


def lint(config, reader="deepspeed"):
    document = parse_document(json.dumps({"train_micro_batch_size_per_gpu": 8} | config).encode(), "ds_config.json")
    read_by = Reader(reader, stated=True) if reader else Reader()
    return [one for one in lint_document(document, reader=read_by).findings if one.rule.code in OURS]


def brief(config, reader="deepspeed"):
    return [(one.rule.code, one.severity) for one in lint(config, reader)]


def experts(**keys):
    return {"expert_parallel": {"enabled": False, **keys}}


def sampling(*, enabled=False, **keys):
    return {"data_efficiency": {"enabled": enabled, "data_sampling": {"enabled": True, **keys}}}


@pytest.mark.parametrize(
    ("idle", "used", "code"),
    [
        ({"aio": {"block_size": "1M"}}, {"aio": {"block_size": "1M"}, **NVME}, "ZC111"),
        ({"aio": {"block_size": 1.5}}, {"aio": {"block_size": 1.5}, **NVME}, "ZC115"),
        ({"aio": {"block_size": "8"}}, {"aio": {"block_size": "8"}, **NVME}, "ZC008"),
        (
            {"aio": {"block_size": "1M"}},
            {"aio": {"block_size": "1M"}, "checkpoint": {"writer": {"type": "fast"}}},
            "ZC111",
        ),
        ({"allgather_size": "x"}, {"allgather_size": "x", "zero_optimization": True}, "ZC111"),
        ({"data_parallel_size": 0}, {"data_parallel_size": 0, "sequence_parallel_size": 2}, "ZC112"),
        (
            {"activation_checkpointing": {"number_checkpoints": 1.5}},
            {"activation_checkpointing": {"number_checkpoints": 1.5, "contiguous_memory_optimization": True}},
            "ZC115",
        ),
        ({"autotuning": {"metric": "x"}}, {"autotuning": {"enabled": True, "metric": "x"}}, "ZC113"),
        (experts(score_func="x"), experts(enabled=True, score_func="x"), "ZC113"),
        (sampling(num_epochs=1.5), sampling(enabled=True, num_epochs=1.5), "ZC115"),
        (
            {"flops_profiler": {"profile_step": "1"}},
            {"flops_profiler": {"enabled": True, "profile_step": "1"}},
            "ZC008",
        ),
        (
            {"flops_profiler": {"module_depth": "1"}},
            {"flops_profiler": {"module_depth": "1"}, "autotuning": {"enabled": True}},
            "ZC008",
        ),
    ],
)
def test_an_error_only_where_something_computes_with_the_value(idle, used, code):
    assert (code, "warning") in brief(idle)
    assert "nothing reads it" in "".join(one.message for one in lint(idle) if one.rule.code == code)
    assert (code, "error") in brief(used)


@pytest.mark.parametrize(
    "config",
    [
        {"aio": {"block_size": 8.0}, **NVME},
        experts(enabled=True, comm_num_sm=2.0),
        {"flops_profiler": {**PROFILED, "top_modules": 1.0}},
        {"sequence_parallel_size": 2.0, "data_parallel_size": 4},
        {"tensor_parallel": {"autotp_size": 2.0}},
    ],
)
def test_a_point_is_no_matter_where_hjson_reads(config):
    assert brief(config, "deepspeed") == []
    assert ("ZC115", "warning") in brief(config, None)
    assert ("ZC115", "error") in brief(config, "accelerate")


@pytest.mark.parametrize("path", [("aio",), ("torch_autocast", "dtype"), ("checkpoint", "parallel_write")])
def test_what_the_parser_looks_at_is_an_error_wherever_it_stands(path):
    config = 3
    for step in reversed(path):
        config = {step: config}
    assert ("ZC111", "error") in brief(config)


def test_aio_of_a_fast_checkpoint_writer_is_not_idle():
    stage_3 = {"zero_optimization": {"stage": 3}, "aio": {"block_size": 1048576}}
    assert ("ZC239", "info") in brief(stage_3)
    assert brief({**stage_3, "checkpoint": {"writer": {"type": "FAST"}}}) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "error"), (0.0, "error"), (False, "error"), (-1, None), (0.5, None), (None, None), (10, None)],
)
def test_steps_per_print_divides(value, expected):
    config = {"steps_per_print": value}
    assert brief(config) == ([("ZC112", expected)] if expected else [])
    assert "None" not in "".join(one.message for one in lint(config))
    # Accelerate and the Trainer set it over; nobody said who reads the other file
    assert brief({**config, "zero_optimization": {"stage": 0}}, "trainer") == []
    assert brief(config, None) == ([("ZC112", "warning")] if expected else [])


@pytest.mark.parametrize(
    ("config", "reader", "severity", "who"),
    [
        ({"train_micro_batch_size_per_gpu": 4.5}, "deepspeed", "warning", "a DataLoader refuses it"),
        ({"train_micro_batch_size_per_gpu": 4.5}, None, "warning", "a DataLoader refuses it"),
        ({"train_micro_batch_size_per_gpu": 4.5}, "trainer", "error", "the Trainer compares it"),
        ({"train_batch_size": 36.5}, "deepspeed", "error", "DeepSpeed refuses the file"),
        ({"gradient_accumulation_steps": 1.5}, "deepspeed", "error", "another number of micro steps"),
        ({"flops_profiler": {"enabled": True, "profile_step": 1.5}}, "deepspeed", "error", "nothing is profiled"),
    ],
)
def test_who_refuses_a_fraction(config, reader, severity, who):
    (found,) = [one for one in lint(config, reader) if one.rule.code == "ZC115"]
    assert found.severity == severity
    assert who in found.message


def test_a_guessed_trainer_may_be_accelerate_which_takes_the_fraction():
    config = {"train_micro_batch_size_per_gpu": 1.5, "train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    assert brief(config, None) == [("ZC115", "warning")]


def test_a_fraction_of_a_product_is_refused_by_the_loader_alone():
    found = brief({"train_batch_size": 4.5, "train_micro_batch_size_per_gpu": 4.5})
    assert found == [("ZC115", "warning"), ("ZC115", "warning")]


@pytest.mark.parametrize("text", ["2", "0", "1"])
def test_the_size_that_is_read_before_pydantic_takes_no_text(text):
    (found,) = lint({"tensor_parallel": {"autotp_size": text}})
    assert (found.rule.code, found.severity) == ("ZC008", "error")
    assert json.loads(apply(found.document.text, found.fix.edits))["tensor_parallel"] == {"autotp_size": int(text)}


@pytest.mark.parametrize("keys", [{"update_interval": 0}, {"update_interval": -1}, {"update_interval": False}])
def test_zenflow_updates_at_some_time(keys):
    assert ("ZC112", "error") in brief({"zero_optimization": {"stage": 2, "zenflow": keys}})


@pytest.mark.parametrize(
    ("params", "codes"),
    [
        ({"cycle_first_step_size": 10.5, "cycle_first_stair_count": 2.5, "decay_step_size": 2.5}, []),
        ({"last_batch_iteration": 1.5, "total_num_steps": 10.5}, []),
        ({"warmup_num_steps": 2.5}, ["ZC115"]),
        ({"lr_range_test_step_size": 2.5}, ["ZC115"]),
    ],
)
def test_a_scheduler_computes_with_fractions_of_steps(params, codes):
    assert [code for code, _ in brief({"scheduler": {"params": params}})] == codes


@pytest.mark.parametrize("reader", ["deepspeed", "accelerate", "trainer", None])
def test_params_may_be_null(reader):
    config = {"optimizer": {"type": "AdamW", "params": None}, "zero_optimization": {"stage": 1}}
    assert brief(config, reader) == []


@pytest.mark.parametrize(
    ("more", "is_divided"),
    [
        ({}, True),
        ({"zero_optimization": {"stage": 1, "reduce_scatter": False}}, True),
        ({"zero_optimization": {"stage": 1}}, False),
        ({"prescale_gradients": True}, False),
        ({"gradient_allreduce_op": "sum"}, False),
    ],
)
def test_gradients_are_not_divided_by_0(more, is_divided):
    assert brief({"gradient_predivide_factor": 0, **more}) == ([("ZC255", "error")] if is_divided else [])


def test_any_number_but_0_counts_as_true():
    config = {"prescale_gradients": -1, "zero_optimization": {"stage": 2}}
    assert ("ZC255", "error") in brief(config)
    assert ("ZC255", "error") not in brief({**config, "prescale_gradients": 0})
