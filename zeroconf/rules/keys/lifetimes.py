"""ZC105-ZC108: keys by release: removed, not there yet, under an old name, under two names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.keys import key_table
from zeroconf.rules.keys.cures import cure, moved, removed, renamed
from zeroconf.rules.keys.walk import is_known, is_strict, walk
from zeroconf.rules.registry import Problem, rule
from zeroconf.units import release_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.edits import Fix
    from zeroconf.document.node import Member
    from zeroconf.keys import Block, Key, Release, Releases
    from zeroconf.rules.facts import DsConfig, Reader
    from zeroconf.rules.keys.walk import Seen
    from zeroconf.rules.registry import Severity

# the last release before DeepSpeedConfig stops on what was removed (runtime/config.py, _reject_removed_config_keys)
_LAST_TO_TAKE_ALL = (0, 19, 6)
_OLD_OFFLOAD = {"cpu_offload": "offload_optimizer", "cpu_offload_param": "offload_param"}


@rule("ZC105", "removed-key", severity="error")
def removed_key(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """A key or block that this DeepSpeed release no longer has.

    After 0.19.6 or 0.19.7 DeepSpeed stops on the blocks of features that it removed, even when they say
    "enabled": false (runtime/config.py, _reject_removed_config_keys; DeepSpeed#8489): elasticity, amp,
    sparse_attention, compression_training, MiCS and others. Strict blocks refuse a key that is gone; elsewhere it is
    ignored.

    Example:
        ```json
        {"train_batch_size": 8, "amp": {"enabled": false}}
        ```

    Use instead:
        ```json deepspeed=0.18.9
        {"train_batch_size": 8, "amp": {"enabled": false}}
        ```
    """
    release = releases.deepspeed
    for seen in walk(config, release).removed:
        key = seen.key
        last = key.until or ()
        strict = is_strict(seen.block, release)
        by_name = last >= _LAST_TO_TAKE_ALL and seen.block.path in {"", "zero_optimization"}
        refused = by_name or (strict and not seen.is_auto)
        if not refused and _is_unread(config, seen):
            continue
        does = "refuses the file" if refused else "drops it" if strict else "ignores it"
        even = ", even where it is switched off" if refused and _is_off(seen) else ""
        instead = f"; use {key.deprecated or key.instead}" if key.deprecated or key.instead else ""
        successor = _named(seen, key.deprecated, release)
        yield Problem(
            f"{seen.shown} was removed after {release_text(last)}:"
            f" DeepSpeed {release_text(release)} {does}{even}{instead}",
            seen.path,
            on_key=True,
            fix=renamed(config, seen, successor, release) or removed(config, seen, safe=_is_off(seen)),
            severity="warning" if strict and not refused else None,
        )


@rule("ZC106", "key-newer-than-release", severity="error")
def key_newer_than_release(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """A key that the DeepSpeed release checked against does not have yet.

    Strict blocks refuse it ("extra fields not permitted", DeepSpeed#3827), the others ignore it without a word, as
    aio did with intra_op_parallelism, which was thread_count until 0.16.4 (DeepSpeed#7056).

    Example:
        ```json deepspeed=0.15.4
        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "aio": {"intra_op_parallelism": 4}}
        ```

    Use instead:
        ```json deepspeed=0.15.4
        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "aio": {"thread_count": 4}}
        ```
    """
    release = releases.deepspeed
    for seen in walk(config, release).too_new:
        key = seen.key
        strict = is_strict(seen.block, release)
        dropped = strict and seen.is_auto
        if not strict and _is_unread(config, seen):
            continue
        old = next((old.name for old in seen.block.keys.values() if old.deprecated == key.name), None)
        old = _named(seen, old, release)
        does = "drops it" if dropped else "refuses the file" if strict else "ignores it"
        yield Problem(
            f"{seen.shown} is new in {release_text(key.since or ())}: DeepSpeed {release_text(release)} {does}"
            + (f"; its name was {old}" if old else ""),
            seen.path,
            on_key=True,
            fix=renamed(config, seen, old, release) or removed(config, seen),
            severity="warning" if dropped else None,
        )


@rule("ZC107", "deprecated-key", severity="warning")
def deprecated_key(config: DsConfig, releases: Releases, reader: Reader) -> Iterator[Problem]:
    """A key under an old name.

    DeepSpeed still maps cpu_offload and the like to their successors, with a warning (runtime/config_utils.py,
    _process_deprecated_field), and reads a bfloat16 block where no bf16 block stands. The Trainer and Accelerate know
    only bf16: they add a bf16 block of their own, which wins, so a bfloat16 block is never read there. max_grad_norm
    among the optimizer's params stops the engine (runtime/engine.py, _configure_basic_optimizer).

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "cpu_offload": true}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
        ```
    """
    release = releases.deepspeed
    for seen in walk(config, release).known:
        key = seen.key
        if key.dead or (seen.is_auto and seen.block.auto == "dropped"):
            continue
        successor = _successor(seen.block, key)
        if successor is None or not _is_there(seen, successor, release) or _beside(seen, successor):
            continue
        yield Problem(
            f"{key.name} is the old form of {successor}; {_does(seen)}",
            seen.path,
            on_key=True,
            fix=_modernized(config, seen, successor, release),
            severity=_weight(seen, reader),
        )


@rule("ZC108", "two-spellings", severity="error")
def two_spellings(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """Two names of one key stand side by side.

    DeepSpeed stops when a deprecated key and its successor are both given, whatever their values
    (runtime/config_utils.py, _process_deprecated_field; DeepSpeed#1536), and refuses a key with and without its
    stage3_ together. A bfloat16 block beside bf16 is not read at all (runtime/precision_config.py).

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"cpu_offload": false, "offload_optimizer": {"device": "cpu"}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
        ```
    """
    release = releases.deepspeed
    for seen in walk(config, release).known:
        key = seen.key
        if seen.is_auto and seen.block.auto == "dropped":
            continue
        other = _successor(seen.block, key) or key.alias_of
        beside = _beside(seen, other) if other and not key.dead else None
        if beside is None:
            continue
        is_outranked = key.name == "bfloat16"
        if is_outranked and beside.node.value is None and beside.node.kind == "scalar":
            continue  # null leaves the decision to the old name (runtime/precision_config.py, get_bfloat16_config)
        agree = config.is_on("bf16", "enabled") == config.is_on("bfloat16", "enabled")
        yield Problem(
            f"{key.name} is not read where {beside.key} stands too"
            if is_outranked
            else f"{key.name} and {beside.key} are two names of one key; DeepSpeed refuses the file with both",
            seen.path,
            on_key=True,
            fix=removed(config, seen, safe=seen.member.node.plain() == beside.node.plain()),
            severity="info" if is_outranked and agree else None,
        )


def _is_unread(config: DsConfig, seen: Seen) -> bool:
    """Whether nothing reads the key's whole block at the file's stage, which ZC110 says of the block."""
    block = key_table("deepspeed").key(*seen.block.path.split("."))
    return block is not None and block.read_at is not None and config.stage not in {None, *block.read_at}


def _does(seen: Seen) -> str:
    match seen.name:
        case "bfloat16":
            return "DeepSpeed reads it; Accelerate and the Trainer add a bf16 block of their own, which wins"
        case "cpu_offload_use_pin_memory":
            return "DeepSpeed takes it and ignores it"
        case _ if seen.key.refused:
            return "DeepSpeed stops on it"
        case _:
            return "DeepSpeed still takes it" + (", with a warning" if seen.block.auto == "dropped" else "")


def _weight(seen: Seen, reader: Reader) -> Severity | None:
    if seen.key.refused:
        return "error"
    if _is_off(seen):
        return "info"
    return "error" if seen.name == "bfloat16" and reader.fills_auto else None


def _successor(block: Block, key: Key) -> str | None:
    """The name that replaces the key, as the table spells it; None for a key that is current."""
    if key.name == "bfloat16" and not block.path:
        return "bf16"
    if key.deprecated is None:
        return None
    current = block.keys.get(key.deprecated)
    return current.alias_of or current.name if current else key.deprecated


def _is_there(seen: Seen, successor: str, release: Release) -> bool:
    """Whether the release has the successor already; one that is no key of the same block is taken to be there."""
    return successor not in seen.block.keys or is_known(seen.block.keys[successor], release)


def _named(seen: Seen, name: str | None, release: Release) -> str | None:
    """The name, when the block knows it in this release."""
    return name if name and is_known(seen.block.keys.get(name), release) else None


def _beside(seen: Seen, name: str) -> Member | None:
    """The member that holds a key, in whichever spelling, with a value that the reader looks at."""
    spellings = [name, *(key.name for key in seen.block.keys.values() if key.alias_of == name)]
    for member in seen.holder.members:
        is_read = member.node.value != "auto" or seen.block.auto == "kept"
        if member.key in spellings and member.key != seen.name and is_read:
            return member
    return None


def _is_off(seen: Seen) -> bool:
    """Whether the file itself switches the feature off: false, null, -1, or {"enabled": false}."""
    value = seen.member.node.plain()
    if isinstance(value, dict):
        return value.get("enabled") is False
    return value is None or value is False or value == -1


def _modernized(config: DsConfig, seen: Seen, successor: str, release: Release) -> Fix | None:
    """The old key in its new form."""
    if seen.name in _OLD_OFFLOAD:
        if _is_off(seen):
            return removed(config, seen, safe=True)
        made = edits.rename(config.document, seen.path, successor)
        made += edits.replace(config.document, seen.path, {"device": "cpu"})
        return cure(f"Write {successor}", made, safe=config.is_on(*seen.path[len(config.prefix) :]))
    if successor in seen.block.keys:
        return renamed(config, seen, successor, release)
    if successor == "gradient_clipping":
        return moved(config, seen, successor, release) or removed(config, seen)
    return removed(config, seen)
