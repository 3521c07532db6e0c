"""What draws which finding, and how severe it is by reader and release."""

from __future__ import annotations

import json

import pytest

from zeroconf.document.read import parse_document
from zeroconf.keys import Releases
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

NEW = (0, 19, 8)
NOBODY = Reader()
DEEPSPEED, TRAINER, ACCELERATE = (Reader(name, stated=True) for name in ("deepspeed", "trainer", "accelerate"))
TORCH = {"torch_adam": True}
CPU, NVME = {"device": "cpu"}, {"device": "nvme", "nvme_path": "/nvme"}


def severities(config, code, reader=NOBODY, release=NEW):
    document = parse_document(json.dumps(config).encode(), "ds_config.json")
    found = lint_document(document, reader=reader, releases=Releases(release, (1, 15, 0))).findings
    return [one.severity for one in found if one.rule.code == code]


def zero(stage, **keys):
    return {"zero_optimization": {"stage": stage, **keys}}


def batch(train=None, micro=None, steps=None, **keys):
    names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    return {**{name: value for name, value in zip(names, (train, micro, steps), strict=True) if value}, **keys}


def adam(**params):
    return {"optimizer": {"type": "AdamW", "params": {"lr": 0.1, **params}}}


def scheduler(name, **params):
    return {"scheduler": {"type": name, "params": params}}


ERROR = [
    ("ZC201", batch(30, 4)),
    ("ZC201", batch(30, None, 4)),
    ("ZC201", batch(16, 3, 2)),
    ("ZC201", batch(16, 2, 2, sequence_parallel_size=2, data_parallel_size=8)),
    ("ZC207", {"fp16": {"enabled": "true"}, "bf16": {"enabled": 1}}),
    ("ZC207", {"fp16": {"enabled": True}, "bfloat16": {"enabled": True}}),
    ("ZC210", {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}}),
    ("ZC219", {"bf16": {"enabled": True, "bf16_master_weights_and_grads": True}, **zero(2)}),
    (
        "ZC219",
        {"bf16": {"bf16_master_weights_and_grads": True}, **zero(2, offload_optimizer=CPU), **adam(torch_adam=True)},
    ),
    ("ZC220", {"optimizer": {"type": "Zeroonadam"}}),
    ("ZC220", {"optimizer": {"type": "Adan"}}),
    ("ZC221", {"optimizer": {"type": "Lamb"}, **zero(1)}),
    ("ZC222", {"scheduler": {"params": {"warmup_num_steps": 9}}}),
    ("ZC224", adam(fused=True)),
    ("ZC224", {**adam(set_grad_none=True), **zero(2, offload_optimizer=CPU)}),
    ("ZC224", {"optimizer": {"type": "Adam", "params": {**TORCH, "decoupled_weight_decay": True}}}),
    ("ZC225", {**adam(amsgrad=True), **zero(2, offload_optimizer=CPU)}),
    ("ZC228", {"optimizer": {"type": "Muon"}, **zero(3, reduce_scatter=False, zero_quantized_gradients=True)}),
    ("ZC230", {**scheduler("StepLR", step_size=1), "fp16": {"enabled": True}}),
    ("ZC232", scheduler("OneCycle", cycle_min_lr=0, cycle_max_lr=1, cycle_second_step_size=-1)),
    ("ZC234", zero(1, compute_grad_norm=False)),
    ("ZC235", zero(0, cpu_offload=True)),
    ("ZC236", zero(1, offload_optimizer=NVME)),
    ("ZC237", zero(3, offload_param={"device": "nvme", "nvme_path": None})),
    ("ZC238", {**zero(3, offload_optimizer={**CPU, "ratio": 0.5}), **adam(torch_adam=True)}),
    ("ZC240", zero(0, offload_param=CPU)),
    ("ZC245", {**zero(3, offload_optimizer={**CPU, "super_offload": True}), "optimizer": {"type": "Lion"}}),
    ("ZC246", {**zero(2, offload_optimizer=CPU, zenflow={"select_strategy": "step"}), **adam()}),
    ("ZC246", {**zero(2, offload_optimizer=CPU, zenflow={"offload": True}), **adam()}),
    ("ZC246", {**zero(2, offload_optimizer=CPU, zenflow={}), **adam(bias_correction=True)}),
    ("ZC255", {"gradient_predivide_factor": 2, **zero(2)}),
    ("ZC256", {"gradient_allreduce_op": "SUM", **zero(2, zenflow={})}),
    ("ZC262", {"tensor_parallel": {"autotp_size": 2, "tp": {"tp_size": 4}}}),
    ("ZC265", {"compile": {"deepcompile": True, "offload_opt_states": True}, **zero(3, offload_optimizer=CPU)}),
    ("ZC265", {"compile": {"autoep_non_moe": True}, **zero(3)}),
    ("ZC265", {"compile": {"deepcompile": True, "passes": ["autotp", "z3"]}, **zero(3)}),
    ("ZC266", {"expert_parallel": {"enabled": True, "autoep_size": 1}, "tensor_parallel": {"autotp_size": 2}}),
    ("ZC266", {"expert_parallel": {"enabled": True, "row_weighting_impl": "fused"}}),
]
WARNING = [
    ("ZC203", batch(8.0)),
    ("ZC209", {"fp16": {"loss_scale": 0}}),
    ("ZC212", {"fp16": {"enabled": True, "loss_scale": 128}}),
    ("ZC215", {"bf16": {"enabled": True}, "torch_autocast": {"enabled": True, "dtype": "fp16"}}),
    ("ZC216", {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "float16"}}),
    ("ZC227", adam(adam_w_mode=False)),
    ("ZC232", scheduler("WarmupDecayLR", total_num_steps=9, warmup_num_steps=10)),
    ("ZC237", zero(3, offload_param={"device": "nvme", "nvme_path": "none"})),
    ("ZC241", {**zero(3, offload_optimizer={**NVME, "pipeline_read": True}), **adam()}),
    ("ZC242", {**zero(2, offload_optimizer=CPU), "optimizer": {"type": "Lamb"}}),
    ("ZC251", zero(2, zero_hpz_partition_size=8)),
    ("ZC252", batch(6, 1, 1, **zero(3, zero_hpz_partition_size=8))),
    ("ZC262", batch(6, 2, 1, tensor_parallel={"autotp_size": 2})),
    ("ZC264", {**zero(3), "pipeline": {"stages": 2}}),
    ("ZC265", {"compile": {"deepcompile": True}}),
    ("ZC267", {"hybrid_engine": {"enabled": True, "enable_cuda_graph": True, "inference_tp_size": 2}}),
]
INFO = [
    ("ZC217", {"bf16": {"enabled": True}, **zero(2), **batch(None, 1, 32)}),
    ("ZC213", {"fp16": {"enabled": "auto", "initial_scale_power": 32}}),
    ("ZC214", {"fp16": {"auto_cast": True}}),
    ("ZC239", zero(3, offload_optimizer={**CPU, "fast_init": True})),
    ("ZC239", {**zero(3), "aio": {"block_size": 1048576}}),
    ("ZC242", {**zero(2, offload_optimizer=CPU), "optimizer": {"type": "SGD"}}),
    ("ZC243", {**zero(2, offload_optimizer=CPU), "zero_force_ds_cpu_optimizer": False}),
    ("ZC244", zero(3, sub_group_size=10**12, offload_optimizer=CPU)),
    ("ZC245", zero(3, offload_optimizer={**CPU, "cpuadam_cores_perc": 0.5})),
    ("ZC246", {**zero(2, offload_optimizer=CPU, zenflow={"update_interval": 4}), **adam(), **batch(None, 1, 2)}),
    ("ZC248", zero(3, gather_16bit_weights_on_model_save=False)),
    ("ZC252", zero(3, zero_hpz_partition_size=16)),
    ("ZC258", zero(3, reduce_bucket_size=10**9)),
    ("ZC259", zero(1, round_robin_gradients=True)),
    ("ZC260", zero(3, max_live_parameters=0)),
    ("ZC265", {"compile": {"offload_activation": True}}),
    ("ZC268", {"flops_profiler": {"enabled": True}}),
]
NOTHING = [
    ("ZC201", batch("auto", 4, 2)),
    ("ZC201", batch(32, "auto", "auto")),
    ("ZC201", batch(3, None, 2, sequence_parallel_size=2)),
    ("ZC201", batch(30, "4")),
    ("ZC203", batch(4.5)),
    ("ZC207", {"fp16": {"enabled": "auto"}, "bf16": {"enabled": True}}),
    ("ZC209", {"bf16": {"enabled": None}}),
    ("ZC210", {"bf16": {"enabled": "auto"}, "data_types": {"grad_accum_dtype": "fp32"}}),
    ("ZC212", {"fp16": {"enabled": False, "loss_scale": 128}}),
    ("ZC213", {"fp16": {"enabled": False, "initial_scale_power": 32}}),
    ("ZC217", {"bf16": {"enabled": True}, **zero(2), **batch(None, 1, 31)}),
    ("ZC221", {"optimizer": {"type": "SGD"}, "zero_allow_untested_optimizer": True, **zero(1)}),
    ("ZC224", {"optimizer": {"type": "RAdam", "params": {"anything": 1}}}),
    (
        "ZC224",
        {"optimizer": {"type": "Adam", "params": {**TORCH, "adam_w_mode": False, "decoupled_weight_decay": True}}},
    ),
    ("ZC225", adam(amsgrad=True, torch_adam=True)),
    ("ZC227", {"optimizer": {"type": "Adam", "params": {"weight_decay": 0}}}),
    ("ZC230", scheduler("StepLR", step_size=1)),
    ("ZC231", scheduler("StepLR")),
    ("ZC234", {"gradient_clipping": 0.0, **zero(2, compute_grad_norm=False)}),
    ("ZC235", zero(0, offload_optimizer={"device": "none", "pin_memory": True})),
    ("ZC238", zero(2, offload_optimizer={**CPU, "ratio": 1.0})),
    ("ZC240", zero("auto", offload_param={"device": "none"})),
    ("ZC241", {**zero(3, offload_optimizer={**NVME, "buffer_count": 2}), "optimizer": {"type": "Lion"}}),
    ("ZC244", zero(3, sub_group_size=10**14)),
    ("ZC248", zero(3, stage3_gather_16bit_weights_on_model_save="auto")),
    ("ZC253", zero(3, zero_hpz_partition_size=8)),
    ("ZC258", zero(0, reduce_bucket_size=10**9)),
    ("ZC259", {**zero(3, reduce_scatter=False), "optimizer": {"type": "Muon"}}),
    ("ZC263", {"activation_checkpointing": {"partition_activations": False}}),
    ("ZC264", {**zero(1), "pipeline": {"activation_checkpoint_interval": 1}}),
    ("ZC266", {"expert_parallel": {"enabled": False, "row_weighting_impl": "fused"}}),
]
TABLES = {"error": ERROR, "warning": WARNING, "info": INFO, None: NOTHING}
ROWS = [(code, severity, config) for severity, rows in TABLES.items() for code, config in rows]


@pytest.mark.parametrize(("code", "severity", "config"), ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS])
def test_severity(code, severity, config):
    assert set(severities(config, code)) == ({severity} if severity else set())


BY_READER = [
    ("ZC202", {"gradient_accumulation_steps": 4}, {NOBODY: "info", DEEPSPEED: "error", TRAINER: "error"}),
    ("ZC204", batch(None, "auto"), {NOBODY: "info", DEEPSPEED: None, TRAINER: "info", ACCELERATE: None}),
    ("ZC205", batch(8), {NOBODY: None, DEEPSPEED: None, TRAINER: "error", ACCELERATE: "error"}),
    ("ZC205", batch("auto"), {NOBODY: "warning"}),
    ("ZC210", {"data_types": {"grad_accum_dtype": "bf16"}}, {DEEPSPEED: "error", ACCELERATE: None}),
    ("ZC214", {"fp16": {"auto_cast": True}}, {DEEPSPEED: "warning", TRAINER: "info"}),
    ("ZC233", batch(8), {NOBODY: "info", DEEPSPEED: "info", TRAINER: "info", ACCELERATE: "info"}),
    ("ZC243", zero(2, offload_optimizer=CPU), {NOBODY: "info", DEEPSPEED: "warning", ACCELERATE: "info"}),
    (
        "ZC263",
        {"activation_checkpointing": {"cpu_checkpointing": True}},
        {NOBODY: "info", DEEPSPEED: "info", TRAINER: "warning"},
    ),
]


@pytest.mark.parametrize(("code", "config", "wanted"), BY_READER, ids=[row[0] for row in BY_READER])
def test_the_reader_decides(code, config, wanted):
    found = {reader: next(iter(severities(config, code, reader)), None) for reader in wanted}
    assert found == wanted


BY_RELEASE = [
    ("ZC211", {"bf16": {"enabled": True}, "data_types": {"param_dtype": "fp16"}}, (0, 19, 2), "error"),
    ("ZC220", {"optimizer": {"type": "OneBitAdam"}}, (0, 19, 7), "error"),
    ("ZC232", scheduler("WarmupLR", warmup_num_steps=4.0), (0, 19, 3), "error"),
]


@pytest.mark.parametrize(("code", "config", "since", "severity"), BY_RELEASE, ids=[row[0] for row in BY_RELEASE])
def test_an_error_begins_with_its_release(code, config, since, severity):
    before = (*since[:2], since[2] - 1)
    assert severities(config, code, release=since) == [severity]
    assert severities(config, code, release=before) == []


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("WarmupDecayLR", {"total_steps": 9}),
        ("WarmupDecayLR", {"total_num_step": 9}),
        ("WarmupDecayLR", {"total_steps": "many"}),
        ("OneCycle", {"min_lr": 0, "cycle_max_lr": 1}),
    ],
)
def test_a_mistyped_parameter_is_not_missing_as_well(name, params):
    assert severities(scheduler(name, **params), "ZC231") == ["error"]


@pytest.mark.parametrize(
    ("name", "params", "expected"),
    [
        ("WarmupLR", {"warmup_max_lr": [0.1]}, []),
        ("WarmupLR", {"warmup_min_lr": [0, 0], "warmup_max_lr": 0.1}, ["info"]),
        ("WarmupLR", {"warmup_min_lr": [0, 0], "warmup_max_lr": [0.1, 0.2]}, ["info", "info"]),
        ("WarmupDecayLR", {"total_num_steps": 9, "warmup_min_lr": [0, 0], "warmup_max_lr": [0.1]}, ["info", "error"]),
        ("WarmupLR", {"warmup_max_lr": []}, ["error"]),
        ("LRRangeTest", {"lr_range_test_min_lr": [0.1, 0.1]}, ["info"]),
        ("OneCycle", {"cycle_min_lr": [0], "cycle_max_lr": [1, 1]}, ["error"]),
        # of another type, which ZC231 names
        ("WarmupLR", {"cycle_min_lr": [0, 0]}, []),
    ],
)
def test_rates_for_each_parameter_group(name, params, expected):
    assert sorted(severities(scheduler(name, **params), "ZC279")) == sorted(expected)


def test_what_is_missing_and_what_is_no_parameter_are_two_faults():
    assert severities(scheduler("WarmupDecayLR", staircase=True), "ZC231") == ["error", "error"]


def test_autocast_over_16_bit_was_refused_until_0_18_0():
    config = {"bf16": {"enabled": True}, "torch_autocast": {"enabled": True, "dtype": "bf16"}}
    assert severities(config, "ZC215", release=(0, 18, 0)) == ["error"]
    assert severities(config, "ZC215", release=(0, 18, 3)) == ["warning"]


def test_pinning_is_missed_before_it_was_the_default():
    config = zero(2, offload_optimizer=CPU)
    assert severities(config, "ZC247", release=(0, 19, 4)) == ["info"]
    assert severities(config, "ZC247", release=(0, 19, 5)) == []


def test_the_trainer_clips_nothing_before_deepspeed_does_by_default():
    assert severities(batch(8), "ZC233", TRAINER, (0, 19, 2)) == ["warning"]
    assert severities(batch(8), "ZC233", DEEPSPEED, (0, 19, 2)) == ["info"]


@pytest.mark.parametrize(("total", "expected"), [(100.5, ["error"]), (100, []), (100.0, []), ("auto", [])])
def test_a_fraction_is_none_of_the_trainers_step_counts(total, expected):
    config = batch(8, **scheduler("WarmupCosineLR", total_num_steps=total, warmup_num_steps=2))
    assert severities(config, "ZC232", TRAINER) == expected
    assert severities(config, "ZC232", DEEPSPEED) == []
