"""Looks wrong, is deliberate or works: none of these may draw an error or a warning."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from zeroconf.document.read import parse_document
from zeroconf.keys import Releases, newest_releases
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

BATCH = {"train_micro_batch_size_per_gpu": 1}
AUTO = dict.fromkeys(("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"), "auto")
BF16 = {"bf16": {"enabled": True}}
# saving gathered weights is advice of its own
ZERO3 = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
FP16 = {"loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1}


class Trap(NamedTuple):
    """A file that is fine, with the readers that it is fine for (None: nobody said who reads it)."""

    text: str
    readers: tuple[str | None, ...] = (None, "deepspeed", "trainer", "accelerate")
    path: str = "ds_config.json"
    releases: Releases | None = None


def _json(config: dict[str, Any], *readers: str | None, releases: Releases | None = None) -> Trap:
    return Trap(json.dumps(config, indent=2), readers or Trap._field_defaults["readers"], releases=releases)


def _zero(zero: dict[str, Any], *readers: str | None, **more: Any) -> Trap:
    return _json({**BATCH, **BF16, "gradient_clipping": 1.0, "zero_optimization": zero, **more}, *readers)


_FILLED = (None, "trainer", "accelerate")
_CLIENT = {"zero_force_ds_cpu_optimizer": False, "zero_allow_untested_optimizer": True}
_ADAMW = {"type": "AdamW", "params": {"lr": 1e-5, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.0}}
_YAML = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 2
  gradient_accumulation_steps: 1
  gradient_clipping: 1.0
  offload_optimizer_device: none
  offload_param_device: none
  zero3_init_flag: false
"""


def _yaml(text: str) -> Trap:
    return Trap(text, (None, "accelerate"), "accelerate.yaml")


TRAPS = {
    "1 auto where it is filled": _json(
        {
            **AUTO,
            "gradient_clipping": "auto",
            "bf16": {"enabled": "auto"},
            "fp16": {"enabled": "auto", **FP16},
            "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
            "scheduler": {
                "type": "WarmupDecayLR",
                "params": {
                    "total_num_steps": "auto",
                    "warmup_min_lr": "auto",
                    "warmup_max_lr": "auto",
                    "warmup_num_steps": "auto",
                },
            },
            "zero_optimization": {
                **ZERO3,
                "reduce_bucket_size": "auto",
                "stage3_prefetch_bucket_size": "auto",
                "stage3_param_persistence_threshold": "auto",
            },
        },
        *_FILLED,
    ),
    "1 auto of stage 3 at stage 0": _json(
        {**AUTO, "zero_optimization": {"stage": 0, "stage3_prefetch_bucket_size": "auto"}}, *_FILLED
    ),
    "1 steps_per_print auto": _json(
        {**AUTO, "gradient_clipping": "auto", "steps_per_print": "auto", "zero_optimization": {"stage": 1}}, *_FILLED
    ),
    "2 JSON in a .yaml": Trap(
        json.dumps({**AUTO, "gradient_clipping": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": ZERO3}),
        _FILLED,
        "zero3.yaml",
    ),
    "3 names without stage3_": _zero(
        {
            "stage": 3,
            "gather_16bit_weights_on_model_save": True,
            "max_live_parameters": 1000000000,
            "max_reuse_distance": 1000000000,
            "prefetch_bucket_size": 15099494,
            "param_persistence_threshold": 40960,
        }
    ),
    "4 zero limits": _zero(
        {**ZERO3, "sub_group_size": 0, "stage3_max_live_parameters": 0, "stage3_max_reuse_distance": 0}
    ),
    "5 one sub-group": _zero({**ZERO3, "sub_group_size": 1000000000000}),
    "5 one sub-group as 1e14": _zero({**ZERO3, "sub_group_size": 1e14}),
    "6 offload to none": _zero({"stage": 2, "offload_optimizer": {"device": "none", "pin_memory": True}}),
    "6 both offloads to none": _zero(
        {
            **ZERO3,
            "offload_optimizer": {"device": "none", "pin_memory": True},
            "offload_param": {"device": "none", "pin_memory": True},
        }
    ),
    "7 client optimizer beside offload": _zero({"stage": 2, "offload_optimizer": {"device": "cpu"}}, **_CLIENT),
    "8 the scheduler owns the rate": _zero(
        {"stage": 2},
        None,
        "deepspeed",
        optimizer={"type": "AdamW", "params": {"lr": 0.0}},
        scheduler={
            "type": "WarmupDecayLR",
            "params": {"warmup_min_lr": 0, "warmup_max_lr": 5e-5, "warmup_num_steps": 100, "total_num_steps": 1000},
        },
    ),
    "8 a constant rate": _zero(
        {"stage": 2},
        optimizer=_ADAMW,
        scheduler={
            "type": "WarmupLR",
            "params": {"warmup_min_lr": 1e-5, "warmup_max_lr": 1e-5, "warmup_num_steps": 1},
        },
    ),
    "9 batch sizes from the program": _json({"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}, None),
    "9 batch sizes only": _json({"train_batch_size": 16, "steps_per_print": 2000}, None, "deepspeed"),
    "10 stage 0": _json({**AUTO, "gradient_clipping": "auto", "zero_optimization": {"stage": 0}}, *_FILLED),
    "11 both precisions auto": _json(
        {**AUTO, "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}, *_FILLED
    ),
    "12 an fp16 block that is off": _zero({"stage": 2}, fp16={"enabled": False, **FP16}),
    "12 an fp16 block on auto": _json(
        {**AUTO, **BF16, "fp16": {"enabled": "auto", **FP16}, "zero_optimization": {"stage": 2}}, *_FILLED
    ),
    "13 no overlap at stage 3": _zero({**ZERO3, "overlap_comm": False}),
    "14 cpu_offload false": _zero({"stage": 2, "cpu_offload": False}),
    "16 micro batch with auto batch": _json(
        {**AUTO, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1, "zero_optimization": ZERO3},
        *_FILLED,
    ),
    "17 unequal slots": Trap("node1 slots=8\nnode2 slots=2\nnode3 slots=4 # the old one\n\n", (None,), "hostfile"),
    "17 placeholders": Trap("ip1 slots=8\nip2 slots=8\n", (None,), "hostfile"),
    "18 template": Trap('{"train_batch_size": CONFIG_BATCH_SIZE, "zero_optimization": {"stage": ZERO_STAGE}}', (None,)),
    "18 template with dollars": Trap('{"train_batch_size": $BATCH, "zero_optimization": {"stage": ${STAGE}}}', (None,)),
    "18 null is unset": _json(
        {"train_batch_size": 64, "gradient_accumulation_steps": None, "zero_optimization": {"stage": 1}},
        None,
        "deepspeed",
    ),
    "19 gpt-neox": Trap(
        '{"pipe-parallel-size": 1, "num-layers": 12, "fp16": {"fp16": true, "type": "fp16"}, '
        '"optimizer": {"type": "Adam"}, "zero_optimization": {"stage": 1}}',
        (None,),
    ),
    "20 silenced": _zero({"stage": 2}, steps_per_print=1e9, wall_clock_breakdown=False),
    "20 comments as keys": _zero({"stage": 2}, _comment="tuned for the lab", _read_the_docs="at home"),
    "21 keys of other programs": _zero({"stage": 2}, msamp={"enabled": False}, veloc_config={"a": 1}),
    "21 sequence parallelism": _zero(
        {"stage": 2}, None, "deepspeed", sequence_parallel_size=1, seq_parallel_communication_data_type="bf16"
    ),
    "22 processes from the command line": _yaml(_YAML + "mixed_precision: bf16\nnum_machines:\n"),
    "22 what accelerate config writes": _yaml(
        _YAML
        + "  deepspeed_multinode_launcher: standard\n"
        + "debug: false\nenable_cpu_affinity: false\ndowncast_bf16: 'no'\nmachine_rank: 0\n"
        + "main_training_function: main\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n"
        + "rdzv_backend: static\nsame_network: true\ntpu_env: []\ntpu_use_cluster: false\ntpu_use_sudo: false\n"
        + "use_cpu: false\n"
    ),
    "22 what FSDP left behind": _yaml(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nfsdp_config: {}\nmixed_precision: bf16\n"
        "num_machines: 1\nnum_processes: 8\n"
    ),
    "23 ZeRO++": _zero({**ZERO3, "zero_hpz_partition_size": 8, "zero_quantized_weights": True}),
    "24 pinned to an old release": _json(
        {
            "train_batch_size": 32,
            "optimizer": {"type": "OneBitAdam", "params": {"lr": 4e-4, "freeze_step": 1000}},
            "gradient_clipping": 1.0,
            "fp16": {"enabled": True},
            "progressive_layer_drop": {"enabled": True, "theta": 0.5, "gamma": 0.001},
            "sparse_gradients": False,
        },
        None,
        "deepspeed",
        releases=Releases((0, 14, 0), newest_releases().accelerate, stated=True),
    ),
    "25 no persistent parameters": _zero({**ZERO3, "stage3_param_persistence_threshold": 0}),
}
# deprecated or old, but working as written: no error, and a warning at most because the name will go
AGED = {
    "14 cpu_offload true": _zero({"stage": 2, "cpu_offload": True}),
    "15 a boolean for the block": _json({**BATCH, "zero_optimization": True}, None, "deepspeed"),
}
_CASES = [
    pytest.param(trap, reader, allowed, id=f"{name} for {reader}")
    for traps, allowed in ((TRAPS, ("info",)), (AGED, ("info", "warning")))
    for name, trap in traps.items()
    for reader in trap.readers
]


@pytest.mark.parametrize(("trap", "reader", "allowed"), _CASES)
def test_a_trap_draws_neither_error_nor_warning(trap: Trap, reader: Any, allowed: tuple[str, ...]):
    document = parse_document(trap.text.encode(), trap.path)
    who = Reader(reader, stated=True) if reader else Reader()
    linted = lint_document(document, reader=who, releases=trap.releases)
    loud = [f"{one.severity} {one.rule.code} {one.pointer}: {one.message}" for one in linted.findings]
    assert [line for line in loud if line.split()[0] not in allowed] == []


def test_all_25_are_here():
    assert {int(name.split()[0]) for name in (*TRAPS, *AGED)} == set(range(1, 26))
