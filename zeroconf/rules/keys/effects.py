"""ZC109-ZC110: keys that have no effect, ever or at this stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.rules.keys.cures import removed
from zeroconf.rules.keys.fits import misfit_of
from zeroconf.rules.keys.walk import walk
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.text.quoted import is_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.keys import Release, Releases
    from zeroconf.rules.facts import DsConfig
    from zeroconf.rules.keys.walk import Seen


@rule("ZC109", "dead-key", severity="info")
def dead_key(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """A key that DeepSpeed parses and nothing uses.

    allgather_partitions and disable_allgather have no reader besides their getters (runtime/config.py), and the
    stages of a pipeline come from PipelineModule (runtime/pipe/module.py). legacy_stage1 is worse: true stops the
    engine (runtime/engine.py, _configure_zero_optimizer).

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_partitions": true}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
        ```
    """
    for seen in walk(config, releases.deepspeed).known:
        if not seen.key.dead:
            continue
        stops = seen.name == "legacy_stage1" and config.is_on(*seen.path[len(config.prefix) :]) and config.stage != 0
        yield Problem(
            f"{seen.name} stops the engine: stage 1 has no other form since 0.5.9"
            if stops
            else f"{seen.shown} does nothing: {seen.key.dead}",
            seen.path,
            on_key=True,
            fix=removed(config, seen, safe=True),
            severity="error" if stops else None,
        )


@rule("ZC110", "no-effect-at-this-stage", severity="info")
def no_effect_at_this_stage(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """A key that DeepSpeed does not read at the file's ZeRO stage.

    The engine hands the stage3_ keys to the stage 3 optimizer only, and allgather_bucket_size or
    round_robin_gradients to that of stages 1 and 2 (runtime/engine.py, _configure_zero_optimizer). Files that are
    kept for several stages hold such keys on purpose.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "stage3_max_live_parameters": 1000000000}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 1000000000}}
        ```
    """
    stage = config.stage
    for seen in walk(config, releases.deepspeed).known if stage is not None else ():
        key = seen.key
        if key.read_at is None or stage in key.read_at or not _is_well_formed(seen, releases.deepspeed):
            continue
        if key.block in _OFFLOADS or seen.block.path in _OFFLOADS or seen.name.startswith(_ZEROPP):
            continue
        first, last = key.read_at[0], key.read_at[-1]
        reads = f"stage {first} reads" if first == last else f"stages {first} {'to' if last > 2 else 'and'} {last} read"
        yield Problem(
            f"{seen.name} has no effect at stage {stage}: only {reads} it",
            seen.path,
            on_key=True,
            fix=removed(config, seen),
        )


# these have rules of their own, which say what does not happen
_ZEROPP = ("zero_hpz_", "zero_quantized_")
_OFFLOADS = ("zero_optimization.offload_optimizer", "zero_optimization.offload_param")


def _is_well_formed(seen: Seen, release: Release) -> bool:
    """Whether no other rule has the value to say something about first."""
    node = seen.member.node
    if isinstance(node.value, str) and (is_quoted(node.value, seen.key) or (seen.is_auto and not seen.key.auto)):
        return False
    return misfit_of(seen.block, seen.key, node, release) is None
