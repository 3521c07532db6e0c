"""ZC111-ZC117: values that the reader of their key does not take, or takes for something else."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from zeroconf.rules.facts import AUTO
from zeroconf.rules.keys.cures import replaced
from zeroconf.rules.keys.fits import is_boolean, is_parsed_while_off, misfit_of
from zeroconf.rules.keys.forms import form, meant_block
from zeroconf.rules.keys.near import nearest
from zeroconf.rules.keys.walk import is_off, shown_release, walk
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.text.quoted import is_checked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.node import Node
    from zeroconf.keys import Key, Release, Releases
    from zeroconf.rules.facts import DsConfig, Reader
    from zeroconf.rules.keys.fits import Kind, Misfit
    from zeroconf.rules.keys.walk import Seen
    from zeroconf.rules.registry import Severity

_LOSS_SCALE_CHECKED_SINCE = (0, 19, 3)
_OTHER_NAMES = {
    "bfloat16": "bf16",
    "bfp16": "bf16",
    "bp16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "half": "fp16",
    "gpu": "none",
    "disk": "nvme",
    "ssd": "nvme",
}


@rule("ZC111", "wrong-type", severity="error")
def wrong_type(config: DsConfig, releases: Releases, reader: Reader) -> Iterator[Problem]:
    """A value is of a type that the key does not take.

    Blocks that DeepSpeed reads with pydantic refuse it (runtime/zero/config.py, DeepSpeedZeroConfig). At the top level
    and in blocks like aio or checkpoint nothing checks it (runtime/config.py, get_scalar_param): an object that is
    none stops the parser, a number that is none fails where it is needed, in the middle of the first step or later,
    and anything that is not empty counts as true.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": "cpu"}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
        ```
    """
    for seen in walk(config, releases.deepspeed).known:
        if seen.block.auto == "dropped" and seen.key.refused and not seen.is_auto:
            yield Problem(f"DeepSpeed refuses any {seen.shown} in a file: {seen.key.refused}", seen.path)
    for seen, key, misfit in _misfits(config, releases.deepspeed, "type"):
        if seen.shown == "steps_per_print" and reader.fills_auto:
            continue  # Accelerate sets it over
        meant = meant_block(seen, releases.deepspeed)
        yield Problem(
            _refusal(seen, key, misfit, releases),
            seen.path,
            fix=replaced(config, seen, meant, json.dumps(meant)) if meant else None,
            severity=_severity(config, seen, key),
        )


@rule("ZC112", "out-of-range", severity="error")
def out_of_range(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """A number is outside of what the key takes.

    The ranges are those of DeepSpeed's own checks (runtime/zero/config.py and the other pydantic models,
    runtime/config.py, _batch_assertion, runtime/lr_schedules.py), or of the arithmetic that the number goes into.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": 0}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": 200000000}}
        ```
    """
    for seen, key, misfit in _misfits(config, releases.deepspeed, "range"):
        default = key.default if isinstance(key.default, (int, float)) else key.minimum
        shown = f" (the default is {default})" if default is key.default else ""
        yield Problem(
            f"{seen.shown} is {_shown(seen.member.node)}, and takes {misfit.wanted}{shown};"
            f" {_consequence(seen, key, releases)}",
            seen.path,
            fix=replaced(config, seen, default, str(default), safe=False) if default is not None else None,
            severity=_severity(config, seen, key),
        )


@rule("ZC113", "unknown-choice", severity="error")
def unknown_choice(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """A word is none of those that the key takes.

    DeepSpeed stops on it while it reads the file (offload devices: runtime/zero/offload_config.py;
    communication_data_type and checkpoint.tag_validation: runtime/config.py) or when it builds the engine.

    Example:
        ```json
        {"train_batch_size": 8, "communication_data_type": "bfp16"}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "communication_data_type": "bf16"}
        ```
    """
    for seen, key, misfit in _misfits(config, releases.deepspeed, "choice"):
        word = seen.member.node.value
        choices = [choice for choice in key.enum or () if isinstance(choice, str)]
        meant = next((choice for choice in choices if choice.lower() == word.lower()), None)
        meant = meant or _OTHER_NAMES.get(word.lower()) or nearest("", word, choices)
        yield Problem(
            f"{seen.shown} takes {misfit.wanted}, not {_shown(seen.member.node)}; {_consequence(seen, key, releases)}",
            seen.path,
            fix=replaced(config, seen, meant, json.dumps(meant)) if meant in choices else None,
        )


@rule("ZC114", "wrong-items", severity="error")
def wrong_items(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """A list holds something that the key does not take.

    DeepSpeed checks the items of the lists in its pydantic blocks (runtime/zero/leaf_module_config.py) and passes
    the others on, to an optimizer that cannot use them.

    Example:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "betas": [0.9, null]}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "betas": [0.9, 0.999]}}}
        ```
    """
    for seen, key, misfit in _misfits(config, releases.deepspeed, "item"):
        yield Problem(
            f"{seen.shown} takes {misfit.wanted}, not {_shown(seen.member.node)}; {_consequence(seen, key, releases)}",
            seen.path,
        )


@rule("ZC115", "fractional-integer", severity="error")
def fractional_integer(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """A number with a fraction stands where DeepSpeed takes an integer.

    The pydantic blocks refuse it ("got a number with a fractional part", runtime/zero/config.py): a prefetch bucket
    computed as 0.9 x hidden size squared, or min_loss_scale 0.5, which stops DeepSpeed even where fp16 is off.

    Example:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": true, "min_loss_scale": 0.5}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": true, "min_loss_scale": 1}}
        ```
    """
    for seen, key, misfit in _misfits(config, releases.deepspeed, "fraction"):
        value = seen.member.node.value
        whole = max(round(value), int(key.minimum or 0), int(key.exclusive_minimum or -1) + 1, 1)
        yield Problem(
            f"{seen.shown} takes {misfit.wanted}, not {_shown(seen.member.node)}; {_consequence(seen, key, releases)}",
            seen.path,
            fix=replaced(config, seen, whole, str(whole), safe=value > 100),
        )


@rule("ZC116", "loose-value", severity="info")
def loose_value(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """A value of another type that DeepSpeed takes for the right one.

    pydantic reads 1 as true and true as 1 (its lax mode, which runtime/config_utils.py leaves on), and at the top
    level any number but 0 counts as true. The Trainer and Accelerate compare such values with their own as they are.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_comm": 1}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_comm": true}}
        ```
    """
    for seen, _, misfit in _misfits(config, releases.deepspeed, "coerced"):
        is_text = isinstance(seen.member.node.value, str)
        yield Problem(
            f"{seen.shown} is {_shown(seen.member.node)}, which DeepSpeed reads as {misfit.wanted}",
            seen.path,
            fix=replaced(config, seen, json.loads(misfit.wanted), misfit.wanted, safe=not is_text),
            severity="warning" if is_text and seen.block.unknown != "open" else None,
        )


@rule("ZC117", "loss-scale-floor", severity="error")
def loss_scale_floor(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """min_loss_scale or loss_scale_window is not positive while fp16 scales the loss dynamically.

    Since 0.19.3 DeepSpeed refuses it (runtime/precision_config.py, _validate_dynamic_loss_scale_params,
    DeepSpeed#8050): a window of 0 divides by zero, a floor of 0 lets the scale collapse.

    Example:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": true, "min_loss_scale": 0}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": true, "min_loss_scale": 1}}
        ```
    """
    on = config.enabled("fp16")
    if on is False or config.get("fp16", "loss_scale", default=0) not in (0, AUTO):
        return
    for seen in walk(config, releases.deepspeed).known:
        value = config.number("fp16", seen.name) if seen.block.path == "fp16" else None
        if seen.name not in {"min_loss_scale", "loss_scale_window"} or value is None or value > 0:
            continue
        default = 1 if seen.name == "min_loss_scale" else 1000
        if releases.deepspeed >= _LOSS_SCALE_CHECKED_SINCE:
            does = "DeepSpeed refuses the file" if on else "DeepSpeed refuses the file where fp16 is switched on"
        else:
            does = "DeepSpeed takes it before 0.19.3 and refuses it since"
        yield Problem(
            f"{seen.shown} is {_shown(seen.member.node)}, and dynamic loss scaling needs more than 0 (the default is"
            f" {default}); {does}",
            seen.path,
            fix=replaced(config, seen, default, str(default)),
            severity=None if on and releases.deepspeed >= _LOSS_SCALE_CHECKED_SINCE else "warning",
        )


@lru_cache(maxsize=1)  # each of the rules wants its kind of one file
def _all_misfits(config: DsConfig, release: Release) -> tuple[tuple[Seen, Misfit], ...]:
    found = ((seen, misfit_of(seen.block, seen.key, seen.member.node, release)) for seen in walk(config, release).known)
    return tuple((seen, misfit) for seen, misfit in found if misfit is not None)


def _misfits(config: DsConfig, release: Release, kind: Kind) -> Iterator[tuple[Seen, Key, Misfit]]:
    for seen, misfit in _all_misfits(config, release):
        if misfit.kind == kind:
            yield seen, seen.key, misfit


def _shown(node: Node) -> str:
    if node.kind == "mapping":
        return "an object"
    text = json.dumps(node.plain())
    return text if len(text) <= 60 else text[:57] + "..."


def _refusal(seen: Seen, key: Key, misfit: Misfit, releases: Releases) -> str:
    takes = f"{seen.shown} takes {misfit.wanted}{form(seen, releases.deepspeed)}"
    return f"{takes}, not {_shown(seen.member.node)}; {_consequence(seen, key, releases)}"


def _severity(config: DsConfig, seen: Seen, key: Key) -> Severity | None:
    """Less than an error where nothing looks at the value: a dead key, or a block that is switched off."""
    if seen.block.auto == "dropped" or is_parsed_while_off(seen.block, key):
        return None
    if key.dead:
        return "info"
    return "warning" if is_off(config, seen) else None


def _consequence(seen: Seen, key: Key, releases: Releases) -> str:
    """What DeepSpeed does with the value."""
    release = shown_release(releases.deepspeed)
    if seen.block.auto == "dropped" or key.block is not None or is_checked(seen.block, key):
        return f"DeepSpeed {release} refuses the file"
    if is_boolean(key):
        return "anything that is not empty counts as true"
    if seen.block.unknown == "open":
        return f"DeepSpeed {release} hands it on as it is, and building the {seen.block.path.partition('.')[0]} fails"
    if key.enum is not None:
        return f"DeepSpeed {release} stops on it"
    return f"DeepSpeed {release} does not check it and fails where it uses it"
