"""ZC248-ZC250: what a checkpoint holds, and what is loaded from one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.facts import AUTO
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import is_for_inference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig

_GATHER = "stage3_gather_16bit_weights_on_model_save"
_GATHER_NAMES = (
    _GATHER,
    "gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save",
)


@rule("ZC248", "stage-3-saves-shards-only", severity="warning")
def stage_3_saves_shards_only(config: DsConfig) -> Iterator[Problem]:
    """At stage 3 no file with the model's weights is saved.

    Without stage3_gather_16bit_weights_on_model_save the engine's save_16bit_model writes nothing and returns False,
    and the Trainer saves only the ranks' shards, which zero_to_fp32.py must put together (runtime/engine.py;
    huggingface/transformers#25817). A script's own `torch.save(model.state_dict())` saves tensors of size 0. Gathering
    costs a 16-bit copy of the model on rank 0 at each save; false says that this is wanted. A file that only loads and
    computes saves nothing: parameters offloaded, no optimizer, no scheduler, no clipping, no accumulation.

    Example:
        ```json
        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": true}}
        ```
    """
    if config.stage != 3:
        return
    present = [key for key in _GATHER_NAMES if config.has("zero_optimization", key)]
    if not present and is_for_inference(config):
        return
    if any(config.is_on("zero_optimization", key) or config.zero(key) == AUTO for key in present):
        return
    path = config.path("zero_optimization", present[0] if present else _GATHER)
    fix = edits.replace if present else edits.insert
    yield Problem(
        f"stage 3 saves shards only, to be put together by zero_to_fp32.py; {path[-1]} true saves the 16-bit weights,"
        " through a copy of the model on rank 0",
        path,
        fix=cure("Gather the weights at each save", fix(config.document, path, value=True), safe=False),
        severity="info" if present else None,
    )


@rule("ZC249", "elastic-checkpoint-at-stage-3", severity="warning")
def elastic_checkpoint_at_stage_3(config: DsConfig) -> Iterator[Problem]:
    """elastic_checkpoint has no effect at stage 3.

    DeepSpeed only warns (runtime/zero/config.py, elastic_checkpoint_deprecated; DeepSpeed#8031, DeepSpeed#2921). A
    checkpoint changes its number of GPUs as a universal one: ds_to_universal.py, then checkpoint.load_universal.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "elastic_checkpoint": true}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "checkpoint": {"load_universal": true}}
        ```
    """
    if config.stage == 3 and config.is_on("zero_optimization", "elastic_checkpoint"):
        path = config.path("zero_optimization", "elastic_checkpoint")
        yield Problem(
            "elastic_checkpoint has no effect at stage 3; to resume on another number of GPUs convert the checkpoint"
            " with ds_to_universal.py",
            path,
            on_key=True,
            fix=cure("Remove elastic_checkpoint", edits.remove(config.document, path)),
        )


@rule("ZC250", "universal-checkpoint-expected", severity="info")
def universal_checkpoint_expected(config: DsConfig) -> Iterator[Problem]:
    """Only converted checkpoints can be resumed.

    With checkpoint.load_universal the engine looks for latest_universal and stops where a plain checkpoint has none:
    "Invalid for universal checkpoint: latest_universal does not exist" (runtime/engine.py, load_checkpoint;
    DeepSpeed#5405). Left on after the conversion's one resume, it breaks the next.

    Example:
        ```json
        {"train_batch_size": 8, "checkpoint": {"load_universal": true}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "checkpoint": {"load_universal": false}}
        ```
    """
    if config.is_on("checkpoint", "load_universal"):
        yield Problem(
            "load_universal resumes only what ds_to_universal.py has converted; switch it off for plain checkpoints",
            config.path("checkpoint", "load_universal"),
        )
