"""The cases of the memory oracle: one option at a time around a base of each stage, then seeded pairs of options.

The model is a Llama of 7,475,456 parameters in 75 tensors, the largest of 524,288, on 1 x 8 tokens: states and buffers
weigh, activations hardly.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from zeroconf.smoke.job import SmokeJob
from zeroconf.types import ModelSpec

SEED = 4
NUM_PAIRS = 12  # of each stage
BUCKET = 1_000_000
# what the tests run
QUICK = {
    "stage-0",
    "stage-1/grads-fp32",
    "stage-2/overlap",
    "stage-2/offload-optimizer",
    "stage-3/two-ranks-last",
    "stage-3/offload-both",
    "stage-3/lora-hpz",
    "stage-3/moe",
}
LLAMA = ModelSpec(
    name="llama-7.5m",
    architecture="llama",
    num_parameters=7_475_456,
    num_active_parameters=7_475_456,
    num_layers=8,
    hidden_size=256,
    intermediate_size=704,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=64,
    vocab_size=2048,
    tied_embeddings=False,
    max_sequence_length=256,
    source="the memory oracle's own shape",
)
TIED = replace(LLAMA, num_parameters=6_951_168, num_active_parameters=6_951_168, tied_embeddings=True)
# per layer: attention 4 x 256 x 256, 4 experts of 3 x 256 x 176, router 4 x 256, two norms
MIXTRAL = replace(
    LLAMA,
    name="mixtral-7.5m",
    architecture="mixtral",
    num_parameters=2 * 2048 * 256 + 8 * (4 * 256 * 256 + 4 * 3 * 256 * 176 + 4 * 256 + 2 * 256) + 256,
    num_active_parameters=2 * 2048 * 256 + 8 * (4 * 256 * 256 + 2 * 3 * 256 * 176 + 4 * 256 + 2 * 256) + 256,
    intermediate_size=176,
    num_experts=4,
    num_experts_per_token=2,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job and its model."""

    name: str
    job: SmokeJob
    model: ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One deviation from the base: keys merged into the configuration, fields of the job, another model."""

    name: str
    stages: tuple[int, ...] = (0, 1, 2, 3)
    config: dict[str, Any] = field(default_factory=dict)
    zero: dict[str, Any] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    model: ModelSpec = LLAMA


def _optimizer(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"optimizer": {"type": kind, "params": {"lr": 1e-3} | parameters}, "zero_allow_untested_optimizer": True}


FP16 = {"fp16": {"enabled": True, "initial_scale_power": 4}, "bf16": {"enabled": False}}
FP32 = {"bf16": {"enabled": False}}
AUTOCAST = FP32 | {"torch_autocast": {"enabled": True, "dtype": "bfloat16"}}
CPU = {"device": "cpu"}
NVME = {"device": "nvme", "nvme_path": "/"}
PARTITIONED = (1, 2, 3)
SHARED = (1, 2)
OPTIONS = (
    Option(name="one-rank", job={"world_size": 1}),
    Option(name="two-ranks", job={"world_size": 2}),
    Option(name="two-ranks-last", job={"world_size": 2, "rank": 1}),
    Option(name="last-rank", job={"rank": 7}),
    Option(name="64-ranks", job={"world_size": 64}),
    Option(name="64-ranks-last", job={"world_size": 64, "rank": 63}),
    Option(name="fp16", config=FP16),
    Option(name="fp32", config=FP32),
    Option(name="autocast", config=AUTOCAST),
    Option(name="accumulation-2", job={"gradient_accumulation_steps": 2}),
    Option(name="accumulation-4", job={"gradient_accumulation_steps": 4}),
    Option(name="grads-fp32", stages=PARTITIONED, config={"data_types": {"grad_accum_dtype": "fp32"}}),
    Option(
        name="grads-fp32-accumulation-4",
        stages=PARTITIONED,
        config={"data_types": {"grad_accum_dtype": "fp32"}},
        job={"gradient_accumulation_steps": 4},
    ),
    Option(name="grads-bf16", stages=PARTITIONED, config={"data_types": {"grad_accum_dtype": "bf16"}}),
    Option(name="torch-adam", config=_optimizer("AdamW", torch_adam=True)),
    Option(name="torch-adam-foreach", config=_optimizer("AdamW", torch_adam=True, foreach=True)),
    Option(name="sgd", config=_optimizer("SGD")),
    Option(name="sgd-momentum", config=_optimizer("SGD", momentum=0.9)),
    Option(name="adafactor", config=_optimizer("Adafactor")),
    Option(name="muon", stages=(0, 1, 2), config=_optimizer("Muon")),
    # DeepSpeed refuses it with a reduce-scatter
    Option(name="muon", stages=(3,), config=_optimizer("Muon"), zero={"reduce_scatter": False}),
    Option(name="offload-optimizer", stages=PARTITIONED, zero={"offload_optimizer": CPU}),
    Option(
        name="offload-optimizer-accumulation-2",
        stages=PARTITIONED,
        zero={"offload_optimizer": CPU},
        job={"gradient_accumulation_steps": 2},
    ),
    Option(name="offload-optimizer-fp32", stages=PARTITIONED, config=FP32, zero={"offload_optimizer": CPU}),
    Option(
        name="offload-optimizer-unpinned",
        stages=PARTITIONED,
        zero={"offload_optimizer": CPU | {"pin_memory": False}},
    ),
    Option(
        name="offload-half", stages=(3,), zero={"offload_optimizer": CPU | {"ratio": 0.5}, "sub_group_size": 200_000}
    ),
    Option(name="offload-both", stages=(3,), zero={"offload_optimizer": CPU, "offload_param": CPU}),
    Option(name="offload-param", stages=(3,), zero={"offload_param": CPU}),
    Option(name="nvme-optimizer", stages=(3,), zero={"offload_optimizer": NVME}),
    Option(
        name="nvme-both",
        stages=(3,),
        zero={"offload_optimizer": NVME, "offload_param": NVME | {"buffer_size": 2_000_000}},
    ),
    Option(name="small-bucket", stages=PARTITIONED, zero={"reduce_bucket_size": 200_000}),
    Option(name="large-bucket", stages=PARTITIONED, zero={"reduce_bucket_size": 20_000_000}),
    Option(name="overlap", stages=PARTITIONED, zero={"overlap_comm": True}),
    Option(
        name="overlap-accumulation-2",
        stages=PARTITIONED,
        zero={"overlap_comm": True},
        job={"gradient_accumulation_steps": 2},
    ),
    Option(name="no-overlap", stages=(3,), zero={"overlap_comm": False}),
    Option(name="not-contiguous", stages=PARTITIONED, zero={"contiguous_gradients": False}),
    Option(name="round-robin", stages=SHARED, zero={"round_robin_gradients": True}),
    Option(name="all-reduce", stages=PARTITIONED, zero={"reduce_scatter": False}),
    Option(name="reduce-to-owner", stages=SHARED, zero={"use_multi_rank_bucket_allreduce": False}),
    Option(name="communicate-fp32", config={"communication_data_type": "fp32"}),
    Option(name="no-clipping", config={"gradient_clipping": 0.0}),
    Option(name="persist-all", stages=(3,), zero={"stage3_param_persistence_threshold": 1_000_000}),
    Option(name="persist-none", stages=(3,), zero={"stage3_param_persistence_threshold": 0}),
    Option(name="live-default", stages=(3,), zero={"stage3_max_live_parameters": 1_000_000_000}),
    Option(name="reuse-default", stages=(3,), zero={"stage3_max_reuse_distance": 1_000_000_000}),
    Option(name="no-prefetch", stages=(3,), zero={"stage3_prefetch_bucket_size": 0}),
    Option(name="large-prefetch", stages=(3,), zero={"stage3_prefetch_bucket_size": 4_000_000}),
    Option(name="sub-groups", stages=(3,), zero={"sub_group_size": 200_000}),
    Option(name="hpz-2", stages=(3,), zero={"zero_hpz_partition_size": 2}),
    Option(name="hpz-8", stages=(3,), zero={"zero_hpz_partition_size": 8}),
    Option(name="whole-init", stages=(3,), job={"zero_init": False}),
    Option(name="lora", job={"lora_rank": 8}),
    Option(name="lora-hpz", stages=(3,), job={"lora_rank": 8}, zero={"zero_hpz_partition_size": 4}),
    Option(name="tied", model=TIED),
    Option(name="moe", model=MIXTRAL),
    Option(name="checkpointing", job={"activation_checkpointing": True, "sequence_length": 128}),
    Option(name="long", job={"sequence_length": 256, "micro_batch_size": 4}),
    Option(name="sdpa", job={"attention": "sdpa", "sequence_length": 256}),
)
# in no pair
ALONE = (
    Option(
        name="muon-64-ranks",
        stages=(3,),
        config=_optimizer("Muon"),
        zero={"reduce_scatter": False},
        job={"world_size": 64},
    ),
    Option(
        name="muon-offload-optimizer",
        stages=(3,),
        config=_optimizer("Muon"),
        zero={"reduce_scatter": False, "offload_optimizer": CPU},
    ),
    Option(name="fp32-last-rank", stages=(2,), config=FP32, job={"rank": 7}),
    Option(name="accumulation-4-last-rank", stages=(2,), job={"gradient_accumulation_steps": 4, "rank": 7}),
    Option(name="plain-linear", stages=(3,), zero={"memory_efficient_linear": False}),
    Option(
        name="plain-linear-checkpointing",
        stages=(3,),
        zero={"memory_efficient_linear": False},
        job={"activation_checkpointing": True, "sequence_length": 128},
    ),
)


def _config(stage: int, options: tuple[Option, ...]) -> dict[str, Any]:
    zero: dict[str, Any] = {"stage": stage, "reduce_bucket_size": BUCKET}
    if stage == 3:
        # the defaults would hold this whole model live
        zero |= {
            "stage3_max_live_parameters": 1_000_000,
            "stage3_max_reuse_distance": 0,
            "stage3_prefetch_bucket_size": 500_000,
            "stage3_param_persistence_threshold": 10_000,
        }
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "steps_per_print": 1_000_000_000,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    }
    for option in options:
        config |= option.config
        zero |= option.zero
    return config | {"zero_optimization": zero}


def case(stage: int, *options: Option) -> Case:
    """The base of a stage with options."""
    fields: dict[str, Any] = {"world_size": 8, "sequence_length": 8, "attention": "eager"}
    model = LLAMA
    for option in options:
        fields |= option.job
        model = model if option.model is LLAMA else option.model
    fields["rank"] = min(fields.get("rank", 0), fields["world_size"] - 1)
    job = SmokeJob(ds_config=_config(stage, options), architecture=asdict(model), mode="dry-run", **fields)
    return Case(name="/".join([f"stage-{stage}", *(option.name for option in options)]), job=job, model=model)


def _touched(option: Option) -> set[str]:
    """What an option decides: two that decide the same are no pair."""
    return {*option.config, *option.zero, *option.job} | ({"model"} if option.model is not LLAMA else set())


def _pairs(stage: int) -> list[Case]:
    options = [option for option in OPTIONS if stage in option.stages]
    pairs = [
        (first, second)
        for position, first in enumerate(options)
        for second in options[position + 1 :]
        if not _touched(first) & _touched(second) and "optimizer" not in first.config.keys() & second.zero.keys()
    ]
    return [case(stage, *pair) for pair in random.Random(SEED + stage).sample(pairs, NUM_PAIRS)]


def cases() -> list[Case]:
    """All of them, each once: bases, single options, pairs."""
    stages = range(4)
    alone = [case(stage, option) for stage in stages for option in (*OPTIONS, *ALONE) if stage in option.stages]
    return [*map(case, stages), *alone, *(pair for stage in stages for pair in _pairs(stage))]
