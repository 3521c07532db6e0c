"""ZC101-ZC104: keys that DeepSpeed does not know, in this place or at all."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.keys import key_table
from zeroconf.rules.keys.cures import cure, moved, removed, renamed
from zeroconf.rules.keys.homes import home
from zeroconf.rules.keys.near import nearest
from zeroconf.rules.keys.walk import at, is_known, is_strict, walk
from zeroconf.rules.registry import Problem, rule
from zeroconf.units import release_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.keys import Release, Releases
    from zeroconf.rules.facts import DsConfig, Reader
    from zeroconf.rules.keys.walk import Seen
    from zeroconf.rules.registry import Severity

_LOSS_SCALING = (
    "loss_scale",
    "initial_scale_power",
    "loss_scale_window",
    "hysteresis",
    "consecutive_hysteresis",
    "min_loss_scale",
)


@rule("ZC101", "unknown-key-refused", severity="error")
def unknown_key_refused(config: DsConfig, releases: Releases, reader: Reader) -> Iterator[Problem]:
    """A key that DeepSpeed does not know stands in a block that takes no others.

    The blocks that DeepSpeed reads with pydantic refuse unknown keys ("Extra inputs are not permitted",
    runtime/config_utils.py, DeepSpeedConfigModel): zero_optimization and its offload blocks, monitors, comms_logger
    and others, fp16 and bf16 since 0.17.1 (DeepSpeed#6976). A value "auto" is dropped before the check, so plain
    DeepSpeed runs and the key does nothing; Accelerate and the Trainer stop, because they cannot fill it.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_com": true}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_comm": true}}
        ```
    """
    release = releases.deepspeed
    for seen in walk(config, release).unknown:
        if not is_strict(seen.block, release):
            continue
        if _is_for_fp16(seen):
            scaling = seen.name in _LOSS_SCALING
            yield Problem(
                f"{seen.name} is a key of fp16 only{' (bf16 needs no loss scaling)' if scaling else ''};"
                f" {_consequence(seen, release, reader)}",
                seen.path,
                on_key=True,
                fix=removed(config, seen, safe=scaling),
                severity=_severity_unread(seen, reader),
            )
            continue
        if home(seen, release):
            continue
        near = _nearest(seen, release)
        yield Problem(
            f"{seen.block.path} has no key {seen.name}{_later_home(seen, release) or _question(near)};"
            f" {_consequence(seen, release, reader)}",
            seen.path,
            on_key=True,
            fix=renamed(config, seen, near, release) or removed(config, seen),
            severity=_severity_unread(seen, reader),
        )


@rule("ZC102", "mistyped-key-ignored", severity="error")
def mistyped_key_ignored(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """A key that is nearly the name of another is ignored without a word.

    At the top level and in blocks like optimizer, aio, activation_checkpointing, checkpoint and data_types DeepSpeed
    asks for the keys that it knows and never looks at others (runtime/config.py, get_scalar_param), so a mistyped
    zero_optimization leaves ZeRO off and nobody notices (DeepSpeed#1809).

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimisation": {"stage": 2}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
        ```
    """
    release = releases.deepspeed
    for seen in _ignored(config, release):
        near = None if home(seen, release) else _nearest(seen, release)
        if near:
            both = seen.holder.child(near) is not None
            yield Problem(
                f"DeepSpeed ignores {seen.name} {at(seen.block.path)}; "
                + (f"{near} stands there too, and only that one counts" if both else f"the key is {near}"),
                seen.path,
                on_key=True,
                fix=removed(config, seen) if both else renamed(config, seen, near, release),
            )


@rule("ZC103", "misplaced-key", severity="error")
def misplaced_key(config: DsConfig, releases: Releases, reader: Reader) -> Iterator[Problem]:
    """A key stands at a level where DeepSpeed does not look for it.

    An offload_optimizer beside zero_optimization offloads nothing, a weight_decay beside the optimizer's params
    decays nothing: at the top level and in blocks like optimizer DeepSpeed ignores what it does not ask for
    (runtime/config.py); the pydantic blocks refuse the file (an aio block in zero_optimization: DeepSpeed#2721).

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "offload_optimizer": {"device": "cpu"}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
        ```
    """
    release = releases.deepspeed
    for seen in walk(config, release).unknown:
        if _is_for_fp16(seen):
            continue
        strict = is_strict(seen.block, release)
        if seen.block.unknown == "open" or (not strict and _is_others(seen)):
            continue
        found = home(seen, release)
        if found is None:
            yield from [] if strict else _read_at_the_top(config, seen, release)
            continue
        does = "ignores" if not strict else "drops" if seen.is_auto else "refuses"
        if found.is_accelerate:
            own = f"its own key is {found.places[0]}" if found.places else "and has no key of its own for it"
            text = f"{seen.name} is a field of Accelerate's YAML; DeepSpeed {does} it, {own}"
        else:
            homes = " or ".join(at(place.rpartition(".")[0]) for place in found.places)
            text = f"DeepSpeed {does} {seen.name} {at(seen.block.path)}; it belongs {homes}"
        place = found.places[0] if len(found.places) == 1 else None
        both = place is not None and config.has(*place.split("."))
        yield Problem(
            f"{text}, where it stands already: only that one counts" if both else text,
            seen.path,
            on_key=True,
            fix=removed(config, seen) if both else moved(config, seen, place, release) if place else None,
            severity=_severity_unread(seen, reader) if strict else None if found.is_certain else "warning",
        )


@rule("ZC104", "unknown-key-ignored", severity="warning", confidence="medium")
def unknown_key_ignored(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """A key that DeepSpeed never reads.

    Nothing happens with it: DeepSpeed asks for the keys that it knows (runtime/config.py, get_scalar_param). Keys
    that begin with "_" or "$", and those that other programs are known to read from the same file, are left alone.

    Example:
        ```json
        {"train_batch_size": 8, "inference_batch_size": 4}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "_inference_batch_size": 4}
        ```
    """
    release = releases.deepspeed
    for seen in _ignored(config, release):
        if home(seen, release) or _nearest(seen, release) or any(_read_at_the_top(config, seen, release)):
            continue
        yield Problem(
            f"DeepSpeed reads no key {seen.name} {at(seen.block.path)}: it has no effect unless your own program"
            " reads it",
            seen.path,
            on_key=True,
            fix=removed(config, seen),
        )


def _ignored(config: DsConfig, release: Release) -> Iterator[Seen]:
    """The unknown keys that the reader passes over, less those that are not meant for it."""
    for seen in walk(config, release).unknown:
        strict = is_strict(seen.block, release) or seen.block.unknown == "open"
        if not strict and not _is_others(seen):
            yield seen


def _is_others(seen: Seen) -> bool:
    """Whether the key is a comment, or is read from the same file by another program."""
    if not seen.block.path and seen.name in key_table("deepspeed").elsewhere:
        return True
    return not (seen.name[:1].isascii() and seen.name[:1].isalnum()) or seen.name.lower().startswith("comment")


def _read_at_the_top(config: DsConfig, seen: Seen, release: Release) -> Iterator[Problem]:
    """Top-level keys inside an unknown block, as in {"log": {"steps_per_print": 10}}."""
    top = key_table("deepspeed").blocks[""].keys
    for member in seen.member.node.members if not seen.block.path else ():
        if is_known(top.get(member.key), release):
            path = (*seen.path, member.key)
            text = f"{member.key} is a key of the top level; DeepSpeed ignores it in {seen.name}"
            both, makes = config.has(member.key), config.path(member.key)
            made = edits.remove(config.document, path) if both else edits.move(config.document, path, makes)
            yield Problem(
                f"{text}: only the one at the top level counts" if both else text,
                path,
                on_key=True,
                fix=cure(
                    f"{'Remove' if both else 'Move to'} {member.key}",
                    made,
                    safe=not both,
                    makes=None if both else makes,
                ),
            )


def _is_for_fp16(seen: Seen) -> bool:
    """Whether a bf16 block holds what was copied from an fp16 one."""
    return seen.block.path in {"bf16", "bfloat16"} and seen.name in (*_LOSS_SCALING, "auto_cast")


@lru_cache(maxsize=64)  # a file can hold very many unknown keys
def _known_names(block: str, release: Release) -> tuple[list[str], list[str]]:
    """The names that the release knows in a block, and those of them that are not deprecated."""
    keys = key_table("deepspeed").blocks[block].keys
    known = [name for name, key in keys.items() if is_known(key, release)]
    return known, [name for name in known if not keys[name].deprecated]


def _nearest(seen: Seen, release: Release) -> str | None:
    return _nearest_name(seen.block.path, seen.name, release)


@lru_cache(maxsize=2**15)  # two rules ask for each
def _nearest_name(block: str, name: str, release: Release) -> str | None:
    known, current = _known_names(block, release)
    near = nearest(block, name, current)
    return near if near or len(known) == len(current) else nearest(block, name, known)


def _later_home(seen: Seen, release: Release) -> str:
    """Where a newer release has the key, in words; empty where none has it."""
    table = key_table("deepspeed")
    found = home(seen, table.releases[-1])
    place = found.places[0] if found and found.places else ""
    key = table.key(*place.split("."))
    if key is None or key.since is None or key.since <= release:
        return ""
    return f" (since {release_text(key.since)} it belongs in {place.rpartition('.')[0]})"


def _question(near: str | None) -> str:
    return f" (did you mean {near}?)" if near else ""


def _consequence(seen: Seen, release: Release, reader: Reader) -> str:
    if not seen.is_auto:
        return f"DeepSpeed {release_text(release)} refuses the file"
    if reader.fills_auto:
        return 'nobody fills its "auto", so Accelerate stops'
    return 'DeepSpeed drops it because its value is "auto"'


def _severity_unread(seen: Seen, reader: Reader) -> Severity | None:
    return "warning" if seen.is_auto and not reader.fills_auto else None
