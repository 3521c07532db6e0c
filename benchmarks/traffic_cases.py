"""The cases of traffic_counts.py: one or two options around a base of each stage, and other architectures.

Models have three blocks of width 256: what is sent is counted, so size does not matter.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "memory_oracle"))
import cases as oracle_cases
from cases import FP16, LLAMA, MIXTRAL, OPTIONS, Case, Option

if TYPE_CHECKING:
    from zeroconf.types import ModelSpec

# what the tests run
QUICK = {
    "stage-0/accumulation-4",
    "stage-1/reduce-to-owner+small-bucket",
    "stage-2/accumulation-4",
    "stage-2/lora",
    "stage-3/live-default+accumulation-4",
    "stage-3/persist-all+accumulation-4",
    "stage-3/hpz-2+accumulation-4",
    "stage-3/lora+checkpointing",
    "stage-3/moe+checkpointing",
    "stage-3/gpt2",
}
_BY_NAME = {option.name: option for option in OPTIONS}
_BLOCKS = {"num_layers": 3}
_SMALL = replace(LLAMA, **_BLOCKS)
_UNGATED = {"gated_mlp": False}
_TIED = {"tied_embeddings": True}
_EXPERTS = {"num_experts": 4, "num_experts_per_token": 2, "intermediate_size": 176}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "qwen2": {},
    "qwen3": {},
    "gemma2": _TIED,
    "gemma3_text": _TIED,
    "phi3": {},
    "gpt2": _UNGATED | _TIED,
    "gpt_neox": _UNGATED,
    "opt": _UNGATED | _TIED,
    "bloom": _UNGATED | _TIED | {"intermediate_size": 1024},
    "mistral": {},
    "qwen3_moe": _EXPERTS,
    "gpt_oss": _EXPERTS,
    "deepseek_v3": _EXPERTS,
    "bert": _UNGATED | _TIED | {"kind": "encoder"},
    "t5": _TIED | {"kind": "encoder-decoder"},
}


def _zero(name: str, **keys: Any) -> Option:
    return Option(name=name, zero=keys)


_MORE = {
    "llama": Option(name="llama", model=_SMALL),
    "moe": Option(name="moe", model=replace(MIXTRAL, **_BLOCKS)),
    "tied": Option(name="tied", model=replace(_SMALL, **_TIED)),
    "fp16": Option(name="fp16", config=FP16),
    "accumulation-16": Option(name="accumulation-16", job={"gradient_accumulation_steps": 16}),
    "reuse-3m": _zero("reuse-3m", stage3_max_reuse_distance=3_000_000),
    "keep-2": _zero("keep-2", stage3_max_live_parameters=3_460_000, stage3_max_reuse_distance=7_000_000),
    "keep-3": _zero("keep-3", stage3_max_live_parameters=3_460_000, stage3_max_reuse_distance=10_500_000),
    "live-3m": _zero("live-3m", stage3_max_live_parameters=3_000_000),
}


def _spec(name: str) -> ModelSpec:
    return replace(_SMALL, name=name, architecture=name, **ARCHITECTURES[name])


_ALL = (
    "llama",
    "accumulation-4",
    "checkpointing",
    "lora",
    "lora+accumulation-4",
    "tied",
    "moe",
    "fp16",
    "fp32",
    "communicate-fp32",
    "two-ranks",
    "64-ranks",
)
_PARTITIONED = (
    "grads-fp32",
    "grads-fp32-accumulation-4",
    "offload-optimizer",
    "offload-optimizer+accumulation-4",
    "small-bucket",
    "all-reduce",
    "not-contiguous",
    "autocast",
    "overlap",
    "overlap-accumulation-2",
)
_SHARED = ("reduce-to-owner", "reduce-to-owner+small-bucket", "reduce-to-owner+accumulation-4", "gpt2", "gpt_neox")
_STAGE_3 = (
    "live-default",
    "live-default+accumulation-4",
    "live-default+checkpointing",
    "live-default+checkpointing+accumulation-4",
    "live-default+lora",
    "live-default+tied+accumulation-4",
    "live-3m",
    "keep-2+checkpointing",
    "keep-3+checkpointing",
    "keep-3+accumulation-4",
    "reuse-default",
    "reuse-3m",
    "reuse-3m+live-3m+accumulation-4",
    "no-prefetch",
    "no-prefetch+checkpointing",
    "large-prefetch",
    "persist-all",
    "persist-all+accumulation-4",
    "persist-none",
    "hpz-2",
    "hpz-8",
    "hpz-2+accumulation-4",
    "hpz-2+checkpointing",
    "lora-hpz",
    "lora-hpz+accumulation-4",
    "lora+checkpointing",
    "lora+checkpointing+accumulation-4",
    "lora+checkpointing+live-default",
    "lora+whole-init",
    "lora+persist-none",
    "checkpointing+accumulation-4",
    "tied+accumulation-4",
    "moe+accumulation-4",
    "moe+checkpointing",
    "moe+reuse-3m",
    "moe+live-default",
    "offload-both",
    "offload-both+accumulation-4",
    "nvme-both",
    *ARCHITECTURES,
)


def _option(name: str) -> Option:
    if name in ARCHITECTURES:
        return Option(name=name, model=_spec(name))
    return _MORE.get(name) or _BY_NAME[name]


def _case(stage: int, name: str) -> Case:
    options = [_option(one) for one in name.split("+") if one]
    made = oracle_cases.case(stage, *options)
    model = made.model if any(one.model is not LLAMA for one in options) else _SMALL
    return Case(name=f"stage-{stage}/{name}", job=replace(made.job, architecture=_fields(model)), model=model)


def named_case(stage: int, name: str, ranks: int) -> Case:
    """One case on so many ranks, whose model is built whole."""
    case = _case(stage, name)
    return replace(case, job=replace(case.job, world_size=ranks, rank=0, zero_init=False))


def _fields(model: ModelSpec) -> dict[str, Any]:
    """A model's fields without its size, which is what its class builds."""
    return {name: getattr(model, name) for name in model.__slots__ if name != "num_parameters"}


def traffic_cases() -> list[Case]:
    """All of them."""
    named = [
        (0, _ALL),
        (1, (*_ALL, *_PARTITIONED, *_SHARED)),
        (2, (*_ALL, *_PARTITIONED, *_SHARED)),
        (3, (*_ALL, *_PARTITIONED, *_STAGE_3)),
    ]
    return [_case(stage, name) for stage, names in named for name in names]
