"""Small valid configurations that the mutants start from: stages x offload x precision x optimizer x reader."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import yaml

Config = dict[str, Any]
READERS = ("deepspeed", "trainer", "accelerate")


class Base(NamedTuple):
    """A configuration that every one of its readers accepts.

    ``beside`` is the JSON that an Accelerate YAML names; the text ``DS_CONFIG`` in the YAML stands for its path.
    """

    name: str
    syntax: str
    config: Config
    readers: tuple[str, ...] = READERS
    beside: Config | None = None
    hosts: str = ""

    @property
    def text(self) -> str:
        """The configuration as a file."""
        return self.hosts or to_text(self.syntax, self.config)


def to_text(syntax: str, config: Any) -> str:
    """A configuration as JSON or YAML text, its keys in the order given."""
    if syntax == "yaml":
        return yaml.safe_dump(config, sort_keys=False)
    return json.dumps(config, indent=2) + "\n"


def _zero(stage: int, **more: Any) -> Config:
    return {"stage": stage, **more}


_CPU = {"device": "cpu", "pin_memory": False}
_BF16 = {"enabled": True}
_FP16 = {
    "enabled": True,
    "loss_scale": 0,
    "loss_scale_window": 1000,
    "initial_scale_power": 16,
    "hysteresis": 2,
    "min_loss_scale": 1,
}
_ADAMW = {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}}
_WARMUP = {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 1e-4, "warmup_num_steps": 10}}
_DECAY = {
    "type": "WarmupDecayLR",
    "params": {"warmup_min_lr": 0, "warmup_max_lr": 1e-4, "warmup_num_steps": 10, "total_num_steps": 100},
}
_COSINE = {"type": "WarmupCosineLR", "params": {"total_num_steps": 100, "warmup_num_steps": 10, "cos_min_ratio": 0.1}}
_AUTO_ADAMW = {"type": "AdamW", "params": dict.fromkeys(("lr", "betas", "eps", "weight_decay"), "auto")}
_AUTO_LR = {"type": "AdamW", "params": {"lr": "auto", "betas": [0.9, 0.95], "weight_decay": "auto"}}
_AUTO_WARMUP = {
    "type": "WarmupDecayLR",
    "params": dict.fromkeys(("warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "total_num_steps"), "auto"),
}
_AUTO_BATCH = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
}
_AUTO_BUCKETS = {
    "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto",
    "stage3_gather_16bit_weights_on_model_save": True,
}
_AUTO_FP16 = _FP16 | {"enabled": "auto"}

_PLAIN = (
    ("plain-0-fp32", {"train_batch_size": 16, "zero_optimization": _zero(0)}),
    (
        "plain-0-bf16",
        {
            "train_micro_batch_size_per_gpu": 2,
            "gradient_accumulation_steps": 4,
            "bf16": _BF16,
            "zero_optimization": _zero(0),
            "optimizer": _ADAMW,
            "steps_per_print": 100,
        },
    ),
    (
        "plain-1-bf16",
        {
            "train_batch_size": 64,
            "train_micro_batch_size_per_gpu": 4,
            "gradient_accumulation_steps": 2,
            "gradient_clipping": 1.0,
            "bf16": _BF16,
            "zero_optimization": _zero(1, reduce_bucket_size=200000000, allgather_bucket_size=200000000),
            "optimizer": _ADAMW,
            "scheduler": _WARMUP,
        },
    ),
    (
        "plain-1-fp16-offload",
        {
            "train_micro_batch_size_per_gpu": 1,
            "fp16": _FP16,
            "zero_optimization": _zero(1, offload_optimizer=_CPU),
            "optimizer": {"type": "Adam", "params": {"lr": 0.001, "adam_w_mode": True}},
        },
    ),
    (
        "plain-2-fp16",
        {
            "train_batch_size": 32,
            "train_micro_batch_size_per_gpu": 4,
            "fp16": _FP16,
            "zero_optimization": _zero(
                2, overlap_comm=True, reduce_scatter=True, contiguous_gradients=True, round_robin_gradients=True
            ),
            "optimizer": _ADAMW,
            "scheduler": _DECAY,
            "wall_clock_breakdown": False,
        },
    ),
    (
        "plain-2-bf16-offload",
        {
            "train_micro_batch_size_per_gpu": 8,
            "gradient_accumulation_steps": 1,
            "bf16": _BF16,
            "zero_optimization": _zero(2, offload_optimizer=_CPU, ignore_unused_parameters=True),
            "optimizer": _ADAMW,
            "communication_data_type": "fp32",
        },
    ),
    (
        "plain-2-client-optimizer",
        {
            "train_micro_batch_size_per_gpu": 8,
            "bf16": _BF16,
            "zero_optimization": _zero(2),
            "zero_allow_untested_optimizer": True,
            "data_types": {"grad_accum_dtype": "fp32"},
            "checkpoint": {"tag_validation": "Warn", "load_universal": False},
        },
    ),
    (
        "plain-3-bf16",
        {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 8,
            "gradient_clipping": 0.5,
            "bf16": _BF16,
            "zero_optimization": _zero(
                3,
                overlap_comm=True,
                reduce_bucket_size=16777216,
                sub_group_size=1000000000,
                stage3_max_live_parameters=1000000000,
                stage3_max_reuse_distance=1000000000,
                stage3_prefetch_bucket_size=15099494,
                stage3_param_persistence_threshold=40960,
                stage3_gather_16bit_weights_on_model_save=True,
            ),
            "optimizer": _ADAMW,
            "scheduler": _COSINE,
        },
    ),
    (
        "plain-3-fp16-offload-all",
        {
            "train_batch_size": 8,
            "gradient_accumulation_steps": 2,
            "fp16": _FP16,
            "zero_optimization": _zero(3, offload_optimizer=_CPU, offload_param=_CPU),
            "optimizer": _ADAMW,
            "activation_checkpointing": {"partition_activations": True, "cpu_checkpointing": False},
        },
    ),
    (
        "plain-3-nvme",
        {
            "train_micro_batch_size_per_gpu": 1,
            "bf16": _BF16,
            "zero_optimization": _zero(
                3,
                offload_optimizer={"device": "nvme", "nvme_path": "/nvme", "buffer_count": 4},
                offload_param={"device": "nvme", "nvme_path": "/nvme", "buffer_size": 100000000},
            ),
            "aio": {"block_size": 1048576, "queue_depth": 16, "intra_op_parallelism": 2},
            "optimizer": _ADAMW,
        },
    ),
    (
        "plain-3-lion",
        {
            "train_micro_batch_size_per_gpu": 2,
            "bf16": _BF16,
            "zero_optimization": _zero(3, zero_hpz_partition_size=1, contiguous_gradients=True),
            "optimizer": {"type": "Lion", "params": {"lr": 0.0001, "betas": [0.9, 0.99], "weight_decay": 0.1}},
            "flops_profiler": {"enabled": False, "profile_step": 1},
            "comms_logger": {"enabled": False, "verbose": False},
        },
    ),
    (
        "plain-2-sgd",
        {
            "train_micro_batch_size_per_gpu": 2,
            "zero_optimization": _zero(2),
            "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}},
            "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.001}},
            "zero_allow_untested_optimizer": True,
            "tensorboard": {"enabled": False, "output_path": "runs"},
        },
    ),
)
_AUTO = (
    ("auto-0", {**_AUTO_BATCH, "bf16": {"enabled": "auto"}, "fp16": _AUTO_FP16, "zero_optimization": _zero(0)}),
    ("auto-1", {**_AUTO_BATCH, "bf16": _BF16, "zero_optimization": _zero(1), "optimizer": _AUTO_ADAMW}),
    (
        "auto-2",
        {
            **_AUTO_BATCH,
            "fp16": _AUTO_FP16,
            "bf16": {"enabled": "auto"},
            "zero_optimization": _zero(
                2, overlap_comm=True, reduce_bucket_size="auto", allgather_bucket_size=200000000, reduce_scatter=True
            ),
        },
    ),
    (
        "auto-2-offload",
        {
            **_AUTO_BATCH,
            "train_micro_batch_size_per_gpu": 4,
            "fp16": _FP16,
            "zero_optimization": _zero(2, offload_optimizer=_CPU),
            "optimizer": _AUTO_ADAMW,
            "scheduler": _AUTO_WARMUP,
        },
    ),
    (
        "auto-3",
        {
            **_AUTO_BATCH,
            "bf16": {"enabled": "auto"},
            "zero_optimization": _zero(3, **_AUTO_BUCKETS, sub_group_size=1000000000),
            "steps_per_print": 100,
        },
    ),
    (
        "auto-3-offload",
        {
            **_AUTO_BATCH,
            "bf16": _BF16,
            "zero_optimization": _zero(3, offload_optimizer=_CPU, offload_param=_CPU, **_AUTO_BUCKETS),
            "optimizer": _AUTO_ADAMW,
            "scheduler": _AUTO_WARMUP,
        },
    ),
)


def _yaml(deepspeed: Config, **more: Any) -> Config:
    return {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": deepspeed,
        "machine_rank": 0,
        "main_training_function": "main",
        "mixed_precision": "bf16",
        "num_machines": 1,
        "num_processes": 8,
        "use_cpu": False,
        **more,
    }


_INLINE = (
    ("inline-1", _yaml({"zero_stage": 1, "gradient_accumulation_steps": 4, "gradient_clipping": 1.0})),
    (
        "inline-2-offload",
        _yaml(
            {
                "zero_stage": 2,
                "offload_optimizer_device": "cpu",
                "offload_param_device": "none",
                "gradient_accumulation_steps": 1,
                "zero3_init_flag": False,
            },
            mixed_precision="fp16",
        ),
    ),
    (
        "inline-3",
        _yaml(
            {
                "zero_stage": 3,
                "offload_optimizer_device": "none",
                "offload_param_device": "none",
                "zero3_init_flag": True,
                "zero3_save_16bit_model": True,
                "gradient_accumulation_steps": 2,
                "gradient_clipping": 1.0,
            },
            downcast_bf16="no",
            rdzv_backend="static",
            same_network=True,
        ),
    ),
    (
        "inline-3-two-machines",
        _yaml(
            {
                "zero_stage": 3,
                "offload_optimizer_device": "cpu",
                "offload_param_device": "cpu",
                "zero3_init_flag": True,
                "zero3_save_16bit_model": True,
                "deepspeed_multinode_launcher": "standard",
            },
            num_machines=2,
            num_processes=16,
            main_process_ip="10.0.0.1",
            main_process_port=29500,
        ),
    ),
)


_HOSTS = """\
# the two with eight GPUs
node1 slots=8
node2 slots=8

10.0.0.3 slots=4 # the old one
"""


def _file_yaml(**deepspeed: Any) -> Config:
    config = _yaml({"deepspeed_config_file": "DS_CONFIG", **deepspeed})
    del config["mixed_precision"]  # the JSON owns it, Accelerate refuses both
    return config


BASES: tuple[Base, ...] = (
    *(Base(name, "json", config) for name, config in _PLAIN),
    *(Base(name, "json", config, ("trainer", "accelerate")) for name, config in _AUTO if "optimizer" not in config),
    *(Base(name, "json", config, ("trainer",)) for name, config in _AUTO if "optimizer" in config),
    # Accelerate fills lr and weight_decay only
    *(
        Base(f"{name}-lr", "json", config | {"optimizer": _AUTO_LR}, ("trainer", "accelerate"))
        for name, config in _AUTO
        if "optimizer" in config
    ),
    *(Base(name, "yaml", config, ("accelerate",)) for name, config in _INLINE),
    Base("file-2", "yaml", _file_yaml(), ("accelerate",), dict(_AUTO)["auto-2"]),
    Base("hosts", "hostfile", {}, ("hostfile",), hosts=_HOSTS),
    Base("file-3", "yaml", _file_yaml(zero3_init_flag=True), ("accelerate",), dict(_AUTO)["auto-3"]),
)
