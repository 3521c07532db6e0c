"""The oracle's cases at real widths: catalogue models of 1B to 70B, deep ones cut to a few blocks, dry runs alone.

A cut model keeps its tensors' sizes, so that buckets, live parameters and pieces weigh as in the whole one.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from cases import Case

from zeroconf.inputs.model import read_model
from zeroconf.smoke.job import SmokeJob

if TYPE_CHECKING:
    from zeroconf.types import ModelSpec

# name, blocks that are kept (None: all), ranks
DENSE = (
    ("llama-3.2-1b", None, 8),
    ("tinyllama-1.1b", None, 64),
    ("llama-3.2-3b", 8, 16),
    ("llama-3.1-8b", 8, 8),
    ("llama-3.1-8b", 8, 64),
    ("llama-2-13b", 6, 32),
    ("llama-3.1-70b", 4, 64),
)
LARGE = (("llama-3.1-8b", 8, 8), ("llama-3.1-70b", 4, 64))
AUTO = {
    "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto",
}
CPU = {"device": "cpu", "pin_memory": True}


def cut(model: ModelSpec, layers: int | None) -> ModelSpec:
    """The model with so many blocks."""
    if layers is None:
        return model
    left_out = (model.num_layers - layers) * model.layer_parameters
    return replace(
        model,
        name=f"{model.name}-{layers}",
        num_layers=layers,
        num_parameters=model.num_parameters - left_out,
        num_active_parameters=model.num_active_parameters - left_out,
    )


def _case(
    name: str, layers: int | None, ranks: int, stage: int, what: str, zero: dict[str, Any] | None = None, **job: Any
) -> Case:
    model = cut(read_model(name), layers)
    fields: dict[str, Any] = {
        "world_size": ranks,
        "sequence_length": 2048,
        "attention": "sdpa",
        "mode": "dry-run",
    } | job
    config = {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "steps_per_print": 1_000_000_000,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
        "zero_optimization": {"stage": stage} | (zero or {}),
    }
    return Case(
        name=f"{model.name}/{ranks}/stage-{stage}/{what}",
        job=SmokeJob(ds_config=config, architecture=asdict(model), **fields),
        model=model,
    )


def real_cases() -> list[Case]:
    """All stages with checkpointing and DeepSpeed's defaults, then one deviation each."""
    recomputed = {"activation_checkpointing": True}
    made = [_case(*model, stage, "checkpointed", **recomputed) for model in DENSE for stage in range(4)]
    for model in LARGE:
        made += [
            _case(*model, 3, "auto-buckets", AUTO, **recomputed),
            _case(
                *model,
                3,
                "few-live",
                {"stage3_max_live_parameters": 10**8, "stage3_max_reuse_distance": 10**8},
                **recomputed,
            ),
            _case(*model, 3, "saved", AUTO),
            _case(*model, 2, "saved"),
            _case(*model, 2, "last-rank", rank=model[2] - 1, **recomputed),
            _case(*model, 1, "accumulation-4", gradient_accumulation_steps=4, **recomputed),
            _case(*model, 2, "accumulation-4", gradient_accumulation_steps=4, **recomputed),
            _case(*model, 2, "offload", {"offload_optimizer": CPU}, **recomputed),
            _case(*model, 3, "offload", {"offload_optimizer": CPU, "offload_param": CPU}, **recomputed),
            _case(*model, 3, "hpz", {"zero_hpz_partition_size": 8}, **recomputed),
            _case(*model, 2, "lora", lora_rank=16, **recomputed),
            _case(*model, 3, "lora", lora_rank=16, **recomputed),
            _case(*model, 3, "whole-init", zero_init=False, **recomputed),
        ]
    made += [
        _case(*LARGE[0], 3, "lora-saved", AUTO, lora_rank=16),
        _case(*LARGE[0], 3, "plain-linear", AUTO | {"memory_efficient_linear": False}),
        _case(*LARGE[0], 3, "eager", AUTO, attention="eager", **recomputed),
    ]
    mixture = ("mixtral-8x7b", 2, 16)
    made += [_case(*mixture, stage, "checkpointed", **recomputed) for stage in (2, 3)]
    return [*made, _case(*mixture, 3, "saved", AUTO)]
