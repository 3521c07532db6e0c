"""ZC601 to ZC605: releases that are known to go wrong with what the file uses, each with the public issue.

A file whose releases nobody named is checked against the newest ones, which none of these concern.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document.edits import Fix, replace
from zeroconf.faulty import HPZ_STALE, LAST_MICRO_BATCH_LOST, OVERLAP_RACES, STAGE_2_GRADIENTS_WRONG
from zeroconf.rules.accelerate.reading import inline_stage, uses_deepspeed
from zeroconf.rules.registry import Problem, rule
from zeroconf.units import release_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.keys import Releases
    from zeroconf.rules.facts import AccelerateConfig, DsConfig

_HPZ_SYNCHRONISED = (0, 13, 5)
_OVERLAP_WAITS = (0, 17, 5)
_STAGE_2_MESSAGE = (
    f"stage 2 of DeepSpeed {{release}} computes wrong gradients ({STAGE_2_GRADIENTS_WRONG}, DeepSpeed#7718): "
    "use 0.18.3 or newer"
)


@rule("ZC601", "hpz-reads-weights-too-early", severity="warning")
def hpz_reads_weights_too_early(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """zero_hpz_partition_size in a release that trains with stale or half-copied weights.

    Up to DeepSpeed 0.13.4 the second partition could be gathered before it was copied: zero or NaN loss
    (DeepSpeed#5059, DeepSpeed#4851, fixed by DeepSpeed#5216). Up to 0.18.2 it kept the weights from before a
    checkpoint was loaded, and the first loss was far too high (DeepSpeed#7606, fixed by DeepSpeed#7707).

    Example:
        ```json deepspeed=0.13.4
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
        ```

    Use instead:
        ```json deepspeed=0.18.3
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
        ```
    """
    partition = config.number("zero_optimization", "zero_hpz_partition_size") or 1
    if config.stage != 3 or partition <= 1 or releases.deepspeed not in HPZ_STALE:
        return
    used = release_text(releases.deepspeed)
    if releases.deepspeed < _HPZ_SYNCHRONISED:
        message = (
            f"hpZ in DeepSpeed {used} can train on half-copied weights (#5059): use 0.13.5, better 0.18.3, or newer"
        )
    else:
        message = f"hpZ in DeepSpeed {used} starts from stale weights after loading (#7606): use 0.18.3 or newer"
    yield Problem(message, config.path("zero_optimization", "zero_hpz_partition_size"), on_key=True)


@rule("ZC602", "overlap-comm-race", severity="warning", confidence="low")
def overlap_comm_race(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """overlap_comm at stage 1 or 2 in a release that reduces gradients while they change.

    Up to DeepSpeed 0.17.4 the two buffers were swapped without waiting: a loss of 0 or NaN after a few steps
    (DeepSpeed#4298, DeepSpeed#6351, DeepSpeed#7188, fixed by DeepSpeed#7371). Up to 0.18.9 a buffer could be reused
    before it was sent (DeepSpeed#7965). Many runs never meet it, hence the low confidence.

    Example:
        ```json deepspeed=0.16.4
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_comm": true}}
        ```

    Use instead:
        ```json deepspeed=0.16.4
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_comm": false}}
        ```
    """
    is_overlapping = config.stage in {1, 2} and config.is_on("zero_optimization", "overlap_comm")
    if not is_overlapping or releases.deepspeed not in OVERLAP_RACES:
        return
    is_old = releases.deepspeed < _OVERLAP_WAITS
    issue = "#7188" if is_old else "#7965"
    used = release_text(releases.deepspeed)
    path = config.path("zero_optimization", "overlap_comm")
    message = f"overlap_comm in DeepSpeed {used} can send gradients too early ({issue}): use 0.19.0 or newer, or false"
    fix = Fix("Write false", replace(config.document, path, False), safe=False)
    yield Problem(message, path, fix=fix, severity=None if is_old else "info")


@rule("ZC603", "stage-2-gradients-wrong", severity="warning", confidence="medium")
def stage_2_gradients_wrong(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """Stage 2 in a release that computes wrong gradients.

    From DeepSpeed 0.17.6 to 0.18.2 the norm of the gradients at stage 2 was a third of that at stage 3 with the same
    seed, and runs trained worse (DeepSpeed#7718, DeepSpeed#7697, trl#4540); 0.18.3 is right again.

    Example:
        ```json deepspeed=0.18.1
        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json deepspeed=0.18.3
        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
        ```
    """
    if config.stage == 2 and releases.deepspeed in STAGE_2_GRADIENTS_WRONG:
        message = _STAGE_2_MESSAGE.format(release=release_text(releases.deepspeed))
        yield Problem(message, config.path("zero_optimization", "stage"))


@rule("ZC604", "accelerate-stage-2-gradients-wrong", severity="warning", confidence="medium")
def accelerate_stage_2_gradients_wrong(accelerate: AccelerateConfig, releases: Releases) -> Iterator[Problem]:
    """Stage 2, Accelerate's default, with a DeepSpeed release that computes wrong gradients.

    See ZC603: DeepSpeed 0.17.6 to 0.18.2 (DeepSpeed#7718, trl#4540).

    Example:
        ```yaml deepspeed=0.18.1
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 2
        ```

    Use instead:
        ```yaml deepspeed=0.18.3
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 2
        ```
    """
    is_stage_2 = uses_deepspeed(accelerate) and inline_stage(accelerate) == 2
    if is_stage_2 and releases.deepspeed in STAGE_2_GRADIENTS_WRONG:
        message = _STAGE_2_MESSAGE.format(release=release_text(releases.deepspeed))
        yield Problem(message, accelerate.path("deepspeed_config", "zero_stage"))


@rule("ZC605", "last-micro-batch-not-averaged", severity="warning")
def last_micro_batch_not_averaged(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """Stage 1 with bf16 and fp32 accumulation in a release that does not average the last micro batch.

    From 0.18.3 (DeepSpeed#7665) to 0.18.9 BF16_Optimizer added the gradients of the last micro batch after the
    ranks had averaged theirs: each rank trains on its own share of 1 / gradient_accumulation_steps
    (runtime/engine.py, _backward_epilogue; DeepSpeed#7985).

    Example:
        ```json deepspeed=0.18.6
        {
          "train_batch_size": 8,
          "bf16": {"enabled": true},
          "data_types": {"grad_accum_dtype": "fp32"},
          "zero_optimization": {"stage": 1}
        }
        ```

    Use instead:
        ```json deepspeed=0.19.0
        {
          "train_batch_size": 8,
          "bf16": {"enabled": true},
          "data_types": {"grad_accum_dtype": "fp32"},
          "zero_optimization": {"stage": 1}
        }
        ```
    """
    is_concerned = (
        config.stage == 1 and config.is_on("bf16", "enabled") and config.offload("offload_optimizer") == "none"
    )
    accumulates_in_fp32 = config.get("data_types", "grad_accum_dtype") in ("fp32", "float32")
    updates_late = not config.is_on("bf16", "immediate_grad_update")
    is_in_release = releases.deepspeed in LAST_MICRO_BATCH_LOST
    if is_concerned and accumulates_in_fp32 and updates_late and is_in_release:
        message = (
            f"DeepSpeed {release_text(releases.deepspeed)} does not average the last micro batch of bf16 with fp32 "
            "accumulation at stage 1 (#7985): use 0.19.0 or newer"
        )
        yield Problem(message, config.path("data_types", "grad_accum_dtype"))
