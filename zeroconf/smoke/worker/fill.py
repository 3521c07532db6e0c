"""Fills "auto" as the Trainer does, so that a file meant for Trainer or Accelerate runs as it stands.

Pure: values in, values and a list of what was filled out. Values that are not "auto" are never changed.
Sources: transformers ``integrations/deepspeed.py`` (trainer_config_process, trainer_config_finalize) and
its TrainingArguments' defaults. What the Trainer leaves "auto" is left to DeepSpeed's own verdict.
"""

from __future__ import annotations

import copy
from importlib import util
from typing import Any

LEARNING_RATE = 1e-3  # lets a tiny model's loss fall within a few steps; the Trainer's 5e-5 would not show it

_DRY_ACCUMULATION = 2
# deepspeed/monitor and the profiler, each with the package that it imports
_REPORTS = {
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "comet": "comet_ml",
    "csv_monitor": "",
    "flops_profiler": "",
}


def block(config: dict[str, Any], *path: str) -> dict[str, Any]:
    """The block at ``path``; an empty one where there is none."""
    node: Any = config
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else {}


def _replace(config: dict[str, Any], path: str, value: Any) -> str | None:
    """Puts ``value`` where ``path`` holds "auto"; a line about it, or None."""
    *parents, key = path.split(".")
    node = block(config, *parents)
    if node.get(key) != "auto":
        return None
    node[key] = value
    return f'{path}: {str(value).lower() if isinstance(value, bool) else value} for "auto"'


def fill_batch(
    ds_config: dict[str, Any], *, world_size: int, micro_batch_size: int, accumulation_steps: int
) -> tuple[dict[str, Any], list[str]]:
    """The batch keys, from the job's integers or from the keys that are given."""
    config = copy.deepcopy(ds_config)
    micro, accumulation, total = (
        config.get(key) for key in ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size")
    )
    accumulation = accumulation if isinstance(accumulation, int) else accumulation_steps
    if micro == "auto" and isinstance(total, int):
        micro_batch_size = max(1, total // (world_size * accumulation))
    micro = micro if isinstance(micro, int) else micro_batch_size
    notes = [
        _replace(config, "train_micro_batch_size_per_gpu", micro),
        _replace(config, "gradient_accumulation_steps", accumulation),
        _replace(config, "train_batch_size", micro * accumulation * world_size),
    ]
    return config, [note for note in notes if note]


def switch_reports_off(config: dict[str, Any]) -> list[str]:
    """In place: what writes files or connects to a service, and trains nothing; a line about each."""
    on = [name for name in _REPORTS if block(config, name).get("enabled")]
    for name in on:
        config[name]["enabled"] = False
    notes = [f"{name} is off: it writes or connects, and a smoke test leaves nothing behind" for name in on]
    missing = [name for name in map(_REPORTS.__getitem__, on) if name and util.find_spec(name) is None]
    return notes + [f"the job will fail without {name}, which is not installed here" for name in missing]


def for_dry_run(config: dict[str, Any], world_size: int, scratch: str) -> tuple[list[str], int]:
    """Changes what a dry run needs not or has not, in place: many micro batches, an NVMe.

    A line about each, and the number of micro batches that were cut; 0 when none were.
    """
    uncut = _cut_accumulation(config, world_size)
    for name in ("offload_optimizer", "offload_param"):
        offload = block(config, "zero_optimization", name)
        if offload.get("device") == "nvme":
            offload["nvme_path"] = scratch
    return [f"{_DRY_ACCUMULATION} micro batches for {uncut}: memory repeats from the second on"] if uncut else [], uncut


def _cut_accumulation(config: dict[str, Any], world_size: int) -> int:
    """As DeepSpeed derives what is missing (runtime/config.py: _set_batch_related_parameters); no other split is."""
    names = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size")
    given = [config.get(name) for name in names]
    if any(not isinstance(value, int) or value < 1 for value in given if value is not None):
        return 0
    micro, accumulation, total = given
    if total and micro and not accumulation:
        accumulation = total // (micro * world_size)
    if total and accumulation and not micro:
        micro = total // (accumulation * world_size)
    if not accumulation or accumulation <= _DRY_ACCUMULATION:
        return 0
    if total and micro and micro * accumulation * world_size != total:
        return 0
    cut = {names[1]: _DRY_ACCUMULATION, names[2]: (micro or 0) * _DRY_ACCUMULATION * world_size}
    config.update({name: value for name, value in cut.items() if name in config})
    return int(accumulation)


def fill_auto(
    ds_config: dict[str, Any], *, hidden_size: int, steps: int, bf16: bool, gpu: bool
) -> tuple[dict[str, Any], list[str]]:
    """Everything else that the Trainer fills.

    ``bf16`` and ``gpu`` say what the device can do: "auto" precision becomes bf16 where it is supported,
    else fp16 on a GPU, else fp32. Bucket sizes follow the model's hidden size.
    """
    config = copy.deepcopy(ds_config)
    rate = _learning_rate(config)
    added = []
    if gpu and not bf16 and block(config, "bf16").get("enabled") == "auto" and "fp16" not in config:
        # accelerate/utils/dataclasses.py: set_mixed_precision, for a Trainer that is told fp16
        config["fp16"] = {"enabled": True, "auto_cast": True}
        added = ["fp16, which the Trainer's fp16 adds to the file: the card has no bf16"]
    half = bf16 and "enabled" in block(config, "bf16")
    values: dict[str, Any] = {
        "bf16.enabled": bf16,
        "fp16.enabled": gpu and not half,
        "gradient_clipping": 1.0,
        "optimizer.params.lr": rate,
        "optimizer.params.betas": [0.9, 0.999],
        "optimizer.params.eps": 1e-8,
        "optimizer.params.weight_decay": 0.0,
        # the Trainer fills 0, but then a few steps could all fall into the warm-up and train nothing
        "scheduler.params.warmup_min_lr": rate,
        "scheduler.params.warmup_max_lr": rate,
        "scheduler.params.warmup_num_steps": 1,
        "scheduler.params.total_num_steps": max(2, steps),
        "zero_optimization.reduce_bucket_size": hidden_size * hidden_size,
        "zero_optimization.stage3_prefetch_bucket_size": int(0.9 * hidden_size * hidden_size),
        "zero_optimization.stage3_param_persistence_threshold": 10 * hidden_size,
    }
    notes = [_replace(config, path, value) for path, value in values.items()]
    return config, added + [note for note in notes if note]


def _learning_rate(config: dict[str, Any]) -> float:
    given = block(config, "optimizer", "params").get("lr", "auto")
    return LEARNING_RATE if given == "auto" else given
