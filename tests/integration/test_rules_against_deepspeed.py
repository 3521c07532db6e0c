"""What the rules about values call an error stops the real DeepSpeed or has no effect; what it takes draws none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.rules import RULES
from zeroconf.rules.facts import Reader
from zeroconf.rules.page import read_page

HERE = Path(__file__).parent
OURS = [rule for rule in RULES.values() if "ZC200" < rule.code < "ZC270" or rule.code in {"ZC291", "ZC292"}]
ERRORS = [rule for rule in OURS if rule.severity == "error"]

# what the engine does instead of what the file says, where it does not stop
SILENT = {
    "ZC235": {"optimizer": "AdamW"},
    "ZC236": {"optimizer": "DeepSpeedZeroOptimizer"},
    "ZC240": {"optimizer": "DeepSpeedZeroOptimizer"},
    "ZC245": {"optimizer": "DeepSpeedZeroOptimizer"},
    "ZC262": {"tensor_parallel": 0},
}
# the cure needs what a CPU has not: a GPU, libaio, ops that take minutes to build, a model with layers that it knows
CURE_NEEDS_MORE = {
    *("ZC224", "ZC226", "ZC228", "ZC235", "ZC236", "ZC237", "ZC238", "ZC245", "ZC246", "ZC257", "ZC262", "ZC265"),
}
# refused by Accelerate before DeepSpeed sees it, which test_accelerate_refuses_a_file_without_zero shows
BY_ACCELERATE = {"ZC205"}

ZERO_1, ZERO_2, ZERO_3 = ({"stage": stage} for stage in (1, 2, 3))
ADAM = {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": True}}
FLOWING = {"offload_optimizer": {"device": "cpu"}}
UNTESTED = {"zero_allow_untested_optimizer": True}
CYCLE = {"cycle_min_lr": 0, "cycle_max_lr": 1}
PROFILED = {"enabled": True, "profile_step": 0}


def _autocast(*names, enabled=True):
    return {"torch_autocast": {"enabled": enabled, "dtype": "bf16", "lower_precision_safe_modules": list(names)}}


def _scheduled(name, **params):
    return {"optimizer": ADAM, "scheduler": {"type": name, "params": params}}


STOPS = [
    ("ZC201", {"train_batch_size": 32, "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 2}),
    ("ZC201", {"train_batch_size": 30, "gradient_accumulation_steps": 4}),
    ("ZC202", {"gradient_accumulation_steps": 4}),
    ("ZC210", {"data_types": {"grad_accum_dtype": "bf16"}}),
    ("ZC211", {"fp16": {"enabled": True}, "data_types": {"param_dtype": "bfloat16"}}),
    ("ZC219", {"fp16": {"fp16_master_weights_and_grads": True}}),
    ("ZC219", {"bf16": {"enabled": True, "bf16_optimizer_states": True}, "zero_optimization": ZERO_2}),
    ("ZC220", {"optimizer": {"type": "sgd", "params": {"lr": 0.1}}}),
    ("ZC220", {"optimizer": {"type": "AdamW8bit", "params": {"lr": 0.1}}}),
    ("ZC221", {"optimizer": {"type": "Adamax", "params": {"lr": 0.1}}, "zero_optimization": ZERO_1}),
    ("ZC224", {"optimizer": {"type": "SGD", "params": {"lr": 0.1, "betas": [0.9, 0.99]}}}),
    ("ZC224", {"optimizer": {"type": "AdamW", "params": {"torch_adam": True, "bias_correction": True}}}),
    ("ZC224", {"optimizer": {"type": "AdamW", "params": {"torch_adam": True, "learning_rate": 0.001}}}),
    ("ZC224", {"optimizer": {"type": "AdamW", "params": {"torch_adam": True, "decoupled_weight_decay": True}}}),
    ("ZC229", {"optimizer": ADAM, "scheduler": {"type": "warmuplr", "params": {}}}),
    (
        "ZC230",
        {"optimizer": ADAM, "bf16": {"enabled": True}, "scheduler": {"type": "StepLR", "params": {"step_size": 1}}},
    ),
    ("ZC231", {"optimizer": ADAM, "scheduler": {"type": "WarmupLR"}}),
    ("ZC231", {"optimizer": ADAM, "scheduler": {"type": "WarmupDecayLR", "params": {}}}),
    ("ZC231", {"optimizer": ADAM, "scheduler": {"type": "WarmupDecayLR", "params": {"total_steps": 9}}}),
    ("ZC231", {"optimizer": ADAM, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0}}}),
    ("ZC231", {"optimizer": ADAM, "scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 9}}}),
    ("ZC232", {"optimizer": ADAM, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 4.0}}}),
    (
        "ZC232",
        {
            "optimizer": ADAM,
            "scheduler": {
                "type": "OneCycle",
                "params": {"cycle_min_lr": 0, "cycle_max_lr": 1, "cycle_first_step_size": 0},
            },
        },
    ),
    ("ZC234", {"gradient_clipping": 0, "zero_optimization": {"stage": 3, "compute_grad_norm": False}}),
    (
        "ZC234",
        {
            "gradient_clipping": 0,
            "bf16": {"enabled": True},
            "data_types": {"grad_accum_dtype": "fp32"},
            "zero_optimization": {"stage": 1, "compute_grad_norm": False},
        },
    ),
    (
        "ZC237",
        {"zero_force_ds_cpu_optimizer": False, "zero_optimization": {**ZERO_3, "offload_param": {"device": "nvme"}}},
    ),
    ("ZC238", {"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "none", "ratio": 0.5}}}),
    ("ZC246", {"zero_force_ds_cpu_optimizer": False, "zero_optimization": {**ZERO_2, **FLOWING, "zenflow": {}}}),
    (
        "ZC246",
        {
            "zero_force_ds_cpu_optimizer": False,
            "zero_optimization": {**ZERO_3, **FLOWING, "zenflow": {"select_interval": 3}},
        },
    ),
    ("ZC255", {"gradient_predivide_factor": 2.0, "zero_optimization": ZERO_3}),
    ("ZC256", {"gradient_allreduce_op": "sum", "compile": {"deepcompile": True}}),
    (
        "ZC257",
        {
            "torch_autocast": {"enabled": True, "dtype": "bf16"},
            "zero_optimization": {**ZERO_1, "zero_quantized_weights": True},
        },
    ),
    ("ZC261", {"managed_gradient_accumulation": False, "zero_optimization": {"stage": 0, "overlap_comm": True}}),
    ("ZC262", {"tensor_parallel": {"autotp_size": 2, "tp": {"tp_size": 4}}}),
    ("ZC266", {"expert_parallel": {"enabled": True, "expert_tensor_parallel_size": 2}}),
    ("ZC266", {"expert_parallel": {"enabled": True, "num_expert_groups": 2, "num_limited_groups": 4}}),
    ("ZC269", {"data_efficiency": {"data_sampling": {"dynamic_batching": {"enabled": True}}}}),
    ("ZC112", {"steps_per_print": 0}),
    ("ZC112", {"steps_per_print": False}),
    ("ZC112", {"zero_optimization": {**ZERO_2, **FLOWING, "zenflow": {"update_interval": 0}}}),
    ("ZC008", {"tensor_parallel": {"autotp_size": "2"}}),
    ("ZC008", {"flops_profiler": {"enabled": True, "profile_step": "1"}}),
    ("ZC008", {"flops_profiler": {**PROFILED, "top_modules": "1"}}),
    ("ZC008", {"expert_parallel": {"enabled": True, "autoep_size": "2"}}),
    ("ZC115", {"flops_profiler": {**PROFILED, "module_depth": 1.0}}),
    ("ZC115", {"flops_profiler": {**PROFILED, "top_modules": 1.0}}),
    ("ZC115", {"expert_parallel": {"enabled": True, "autoep_size": 2.0}}),
    ("ZC112", {"expert_parallel": {"enabled": True, "autoep_size": 0}}),
    ("ZC112", {"expert_parallel": {"enabled": True, "expert_tensor_parallel_size": 0}}),
    ("ZC113", {"expert_parallel": {"enabled": True, "routed_scaling_factor": "1"}}),
    ("ZC008", {"autotuning": {"enabled": True, "start_profile_step": "1"}}),
    ("ZC115", {"sequence_parallel_size": 2.0, "data_parallel_size": 4}),
    ("ZC115", {"sequence_parallel_size": 2, "data_parallel_size": 4.0}),
    ("ZC115", {"train_batch_size": 8.5}),
    ("ZC115", _scheduled("WarmupLR", warmup_num_steps=2.5)),
    *(("ZC114", _autocast("torch.nn.Linear", name)) for name in ("Linear", "", ".Linear", "torch.nn.")),
    ("ZC123", {"wrapped": {"train_batch_size": 8, "zero_optimization": ZERO_2}}),
    ("ZC279", _scheduled("WarmupLR", warmup_min_lr=[0, 0], warmup_max_lr=[0.1])),
    ("ZC279", _scheduled("OneCycle", cycle_min_lr=[0], cycle_max_lr=[0.1, 0.1])),
    ("ZC279", _scheduled("LRRangeTest", lr_range_test_min_lr=[])),
    ("ZC255", {"gradient_predivide_factor": 0}),
    ("ZC201", {"train_batch_size": True, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1}),
    ("ZC111", _scheduled("WarmupLR", warmup_min_lr=None)),
    ("ZC111", _scheduled("WarmupCosineLR", total_num_steps=9, warmup_min_ratio=None)),
    ("ZC111", _scheduled("WarmupLR", warmup_type=["log"])),
    ("ZC113", {"optimizer": {"type": "Muon", "params": {"lr": 0.1, "ns_method": "GRAM"}}}),
    ("ZC292", {"optimizer": {"type": "SparseAdam", "params": {}}, "zero_optimization": ZERO_2, **UNTESTED}),
    ("ZC292", {"optimizer": {"type": "LBFGS", "params": {}}, "zero_optimization": ZERO_2, **UNTESTED}),
    ("ZC255", {"gradient_predivide_factor": 0, "zero_optimization": {"stage": 1, "reduce_scatter": False}}),
]
RUNS = [
    _scheduled("WarmupLR", warmup_max_lr=None),
    _scheduled("WarmupDecayLR", total_num_steps=9, warmup_max_lr=None),
    *(_scheduled("WarmupLR", warmup_type=word) for word in ("cosine", "Linear", None, 3)),
    {"optimizer": ADAM, "scheduler": {}},
    {"bf16": {"enabled": True}, "fp16": {"enabled": False, "loss_scale": 0}, "zero_optimization": ZERO_2},
    {"bf16": None, "bfloat16": {"enabled": True}},
    {"train_micro_batch_size_per_gpu": 2, "sequence_parallel_size": 2, "data_parallel_size": 4},
    {"train_batch_size": 8.0},
    {"prescale_gradients": True, "zero_optimization": ZERO_1},
    {"prescale_gradients": True, "gradient_allreduce_op": "sum", "zero_optimization": ZERO_2},
    {"prescale_gradients": True, "zero_optimization": {**ZERO_2, "reduce_scatter": False}},
    {"gradient_predivide_factor": 2.0},
    {"zero_optimization": {**ZERO_3, "allgather_bucket_size": 5}},
    {
        "bf16": {"enabled": True},
        "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {**ZERO_1, "allgather_bucket_size": 5},
    },
    {"zero_optimization": {"stage": 0, "legacy_stage1": True}},
    {"managed_gradient_accumulation": False, "zero_optimization": ZERO_2},
    {"zero_optimization": {**ZERO_3, "sub_group_size": 0, "stage3_max_live_parameters": 0, "overlap_comm": False}},
    {"zero_optimization": {**ZERO_2, "overlap_comm": True, "contiguous_gradients": False}},
    {"zero_optimization": {**ZERO_3, "zero_hpz_partition_size": 8}},
    {"zero_optimization": {**ZERO_3, "offload_optimizer": {"device": "none", "ratio": 0.5}}},
    {"zero_force_ds_cpu_optimizer": False, "zero_optimization": {**ZERO_2, **FLOWING}},
    {"optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}}},
    {"optimizer": {**ADAM, "type": "Adam"}, "scheduler": {"type": "LRRangeTest", "params": {}}},
    {"optimizer": ADAM, "scheduler": {"type": "CosineAnnealingLR", "params": {"T_max": 9}}},
    {
        "optimizer": ADAM,
        "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 3, "warmup_num_steps": 5}},
    },
    {"bf16": {"enabled": True}, "torch_autocast": {"enabled": True, "dtype": "bfloat16"}, "zero_optimization": ZERO_2},
    {
        "bf16": {"enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": True},
        "zero_optimization": ZERO_2,
    },
    {"gradient_clipping": 0.0, "zero_optimization": {**ZERO_1, "compute_grad_norm": False}},
    {"optimizer": {"type": "AdamW", "params": None}},
    {"optimizer": {"type": "SGD", "params": None}, "aio": None, "expert_parallel": None},
    _scheduled("OneCycle", **CYCLE, cycle_first_step_size=10.5, cycle_second_step_size=9.5, decay_step_size=2.5),
    _scheduled("OneCycle", **CYCLE, cycle_first_stair_count=2.5, cycle_second_stair_count=1.5),
    _scheduled("OneCycle", **CYCLE, cycle_first_step_size="10", cycle_second_step_size="9"),
    _scheduled("WarmupDecayLR", total_num_steps=10.5, last_batch_iteration=1.5),
    _scheduled("WarmupCosineLR", total_num_steps=10.5),
    _scheduled("WarmupLR", warmup_min_lr=[0], warmup_max_lr=[0.1]),
    _autocast("torch.nn.Linear", "torch.nn.modules.conv.Conv2d"),
    _autocast("Linear", enabled=False),
    {"steps_per_print": -1},
    {"steps_per_print": 0.5},
    {"train_micro_batch_size_per_gpu": 4.5},
    {"train_batch_size": 36, "train_micro_batch_size_per_gpu": 4.5},
    {"aio": {"block_size": "1M", "queue_depth": None, "intra_op_parallelism": 1.0}, "zero_optimization": ZERO_3},
    {"data_parallel_size": "x"},
    {"allgather_size": "x", "vocabulary_size": 2.5},
    {"autotuning": {"enabled": False, "metric": "x", "start_profile_step": 2.5}},
    {"expert_parallel": {"enabled": False, "score_func": "x", "autoep_size": "2"}},
    {"flops_profiler": {"enabled": False, "profile_step": "1", "module_depth": 1.0}},
    {"activation_checkpointing": {"number_checkpoints": "4"}},
    {"data_efficiency": {"enabled": False, "data_sampling": {"enabled": True, "num_epochs": "x"}}},
    {"tensor_parallel": {"autotp_size": 1.0}},
    {"gradient_predivide_factor": 0, "prescale_gradients": True},
    {"gradient_predivide_factor": 0, "zero_optimization": ZERO_1},
]


def _with_batch(config):
    sizes = ("train_batch_size", "gradient_accumulation_steps", "train_micro_batch_size_per_gpu", "wrapped")
    has_one = any(key in config for key in sizes)
    return config if has_one else {"train_batch_size": 8, **config}


def _case(config, *, is_cure=False):
    """The script brings torch's AdamW where the file names no optimizer; torch's Adam wherever that is no matter."""
    named = (config.get("optimizer") or {}).get("type")
    if named == "Muon" or (is_cure and named in {"Adam", "AdamW"}):
        params = {**config["optimizer"]["params"], "torch_adam": True}
        config = {**config, "optimizer": {"type": named, "params": params}}
    brings = None if "optimizer" in config else "AdamW"
    if brings and "offload_optimizer" in config.get("zero_optimization", {}):
        config = {"zero_force_ds_cpu_optimizer": False, **config}
    return {"config": config, "optimizer": brings}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("judge")


@pytest.fixture(scope="module")
def verdicts(folder):
    """Examples, their cures, and the two tables, all judged in one process."""
    pages = [(rule.code, read_page(rule)) for rule in ERRORS]
    disk = json.dumps(str(folder / "nvme"))
    cases = {("example", code): _case(json.loads(page.example.text.replace('"/nvme"', disk))) for code, page in pages}
    cases |= {
        ("instead", code): _case(json.loads(page.instead.text), is_cure=True)
        for code, page in pages
        if code not in CURE_NEEDS_MORE
    }
    cases |= {("stops", number): _case(_with_batch(config)) for number, (_, config) in enumerate(STOPS)}
    cases |= {("runs", number): _case(_with_batch(config)) for number, config in enumerate(RUNS)}
    ran = subprocess.run(
        [sys.executable, str(HERE / "rules_judge.py")],
        input="".join(json.dumps(case) + "\n" for case in cases.values()),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=600,
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"reached"')]
    assert len(lines) == len(cases), ran.stderr[-2000:]
    return dict(zip(cases, lines, strict=True))


def _errors(config, reader=Reader("deepspeed", stated=True)):  # noqa: B008  (frozen)
    document = parse_document(json.dumps(config).encode(), "ds_config.json")
    found = lint_document(document, reader=reader).findings
    # what other readers refuse is no matter of DeepSpeed
    return {one.rule.code for one in found if one.severity == "error" and (reader.stated or one.rule in OURS)}


@pytest.mark.parametrize("code", [rule.code for rule in ERRORS if rule.code not in BY_ACCELERATE])
def test_what_an_example_shows_stops_deepspeed_or_has_no_effect(code, verdicts):
    verdict = verdicts["example", code]
    silent = SILENT.get(code)
    if silent:
        assert verdict["reached"] == "stepped", verdict
        assert {key: verdict[key] for key in silent} == silent
    else:
        assert "error" in verdict, verdict


@pytest.mark.parametrize("code", [rule.code for rule in ERRORS if rule.code not in CURE_NEEDS_MORE | BY_ACCELERATE])
def test_the_cure_of_an_example_trains(code, verdicts):
    verdict = verdicts["instead", code]
    config = json.loads(read_page(RULES[code]).instead.text)
    if "auto" in json.dumps(config):  # filled by the Trainer, which other tests run
        return
    assert verdict["reached"] == "stepped", verdict


@pytest.mark.parametrize("number", range(len(STOPS)), ids=[f"{code}-{i}" for i, (code, _) in enumerate(STOPS)])
def test_what_stops_deepspeed_draws_an_error(number, verdicts):
    code, config = STOPS[number]
    assert "error" in verdicts["stops", number], verdicts["stops", number]
    # the judge hands objects over, in which 2.0 is what json makes of it; hjson makes an integer
    by_json = _errors(_with_batch(config), Reader("accelerate", stated=True))
    assert code in _errors(_with_batch(config)) | by_json


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_what_deepspeed_takes_draws_no_error(number, verdicts):
    assert verdicts["runs", number]["reached"] == "stepped", verdicts["runs", number]
    for reader in (Reader(), Reader("deepspeed", stated=True)):
        assert not _errors(_with_batch(RUNS[number]), reader)


def test_nvme_below_stage_3_never_touches_the_disk(verdicts, folder):
    assert verdicts["example", "ZC236"]["reached"] == "stepped"
    assert not (folder / "nvme").exists()


def test_clipping_is_on_by_default(verdicts):
    assert verdicts["runs", 0]["clipping"] == 1.0


def test_accelerate_refuses_a_file_without_zero():
    script = (
        "from accelerate.utils import DeepSpeedPlugin\n"
        "try: DeepSpeedPlugin(hf_ds_config={'train_micro_batch_size_per_gpu': 1})\n"
        "except ValueError as error: print(error)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "DS_ACCELERATOR": "cpu"},
    )
    assert "specify the ZeRO optimization config" in ran.stdout
