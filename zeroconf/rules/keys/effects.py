"""ZC109-ZC110: keys that have no effect, ever or at this stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.keys.cures import cure, removed
from zeroconf.rules.keys.fits import misfit_of
from zeroconf.rules.keys.walk import walk
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.text.quoted import is_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.node import Path
    from zeroconf.keys import Release, Releases
    from zeroconf.rules.facts import DsConfig
    from zeroconf.rules.keys.walk import Seen

# these have rules of their own, which say what does not happen
_ZEROPP = ("zero_hpz_", "zero_quantized_")
_OFFLOADS = ("zero_optimization.offload_optimizer", "zero_optimization.offload_param")


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
    kept for several stages hold such keys on purpose. Several keys of one block are one finding, at the block.

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
    unread: dict[Path, list[Seen]] = {}
    reported: set[Path] = set()
    for seen in walk(config, releases.deepspeed).known if stage is not None else ():
        key, holder = seen.key, seen.path[:-1]
        if holder in reported:  # the whole block is without effect
            reported.add(seen.path)
            continue
        if key.read_at is None or stage in key.read_at or not _is_well_formed(seen, releases.deepspeed):
            continue
        if key.block in _OFFLOADS or seen.block.path in _OFFLOADS or seen.name.startswith(_ZEROPP):
            continue
        reported.add(seen.path)
        # the top level's keys have nothing to do with each other
        unread.setdefault(holder if holder != config.prefix else seen.path, []).append(seen)
    for members in unread.values():
        yield _unread(config, members)


def _unread(config: DsConfig, members: list[Seen]) -> Problem:
    """One finding for the keys of one block: at the key, or at the block where there are more."""
    first, names = members[0], [seen.name for seen in members]
    readers: dict[str, list[str]] = {}
    for seen in members:
        readers.setdefault(_readers(seen.key.read_at or ()), []).append(seen.name)
    if len(members) == 1:
        text = f"{first.name} has no effect at stage {config.stage}: only {_readers(first.key.read_at or ())} it"
        return Problem(text, first.path, on_key=True, fix=removed(config, first))
    which = "; ".join(f"{', '.join(keys)} (only {reads} them)" for reads, keys in readers.items())
    holder = first.path[:-1]
    return Problem(
        f"{len(members)} keys of {first.block.path} have no effect at stage {config.stage}: {which}",
        holder,
        on_key=True,
        fix=cure(f"Remove {len(members)} keys", edits.remove_all(config.document, holder, names), safe=False),
    )


def _readers(stages: tuple[int, ...]) -> str:
    first, last = stages[0], stages[-1]
    return f"stage {first} reads" if first == last else f"stages {first} {'to' if last > 2 else 'and'} {last} read"


def _is_well_formed(seen: Seen, release: Release) -> bool:
    """Whether no other rule has the value to say something about first."""
    node = seen.member.node
    if isinstance(node.value, str) and (is_quoted(node.value, seen.key) or (seen.is_auto and not seen.key.auto)):
        return False
    return misfit_of(seen.block, seen.key, node, release) is None
