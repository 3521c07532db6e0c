"""ZC120-ZC122: what becomes of an "auto", by who reads the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.keys import key_table
from zeroconf.rules.facts import AUTO
from zeroconf.rules.idle import idle, is_set_over
from zeroconf.rules.keys.cures import removed, replaced
from zeroconf.rules.keys.fits import is_boolean, is_parsed_while_off
from zeroconf.rules.keys.walk import is_strict, walk
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.text.quoted import is_checked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zeroconf.document.edits import Fix
    from zeroconf.document.node import Node, Path
    from zeroconf.keys import Key, Releases
    from zeroconf.rules.facts import DsConfig, Reader
    from zeroconf.rules.keys.walk import Seen
    from zeroconf.rules.registry import Severity

_GATHER = "stage3_gather_16bit_weights_on_model_save"
# values, and blocks, that the parser does (not) look into whatever is switched on (runtime/config.py)
_PARSED = {
    *(("", name) for name in ("communication_data_type", "seq_parallel_communication_data_type")),
    *(("", name) for name in ("gradient_allreduce_op", "vocabulary_size")),
    *(("checkpoint", "tag_validation"), ("checkpoint.writer", "type"), ("checkpoint.writer", "data_parallel")),
    ("torch_autocast", "dtype"),
    *(("data_efficiency.data_sampling.dynamic_batching", f"{end}_batch_size") for end in ("min", "max")),
}
_LEFT_ALONE = {"tensorboard", "wandb", "csv_monitor", "comet", "timers", "params", "datastates_ckpt", "arg_mappings"}
_FIXED = {
    "stage": ("2", "unless Accelerate's zero_stage says otherwise; write the stage"),
    "device": ("none, so nothing is offloaded", "unless Accelerate's settings name a device; write cpu, nvme or none"),
    "nvme_path": ('"none", a folder in the working directory', "; write the path"),
    _GATHER: ("false, so saving writes no whole weights", "unless Accelerate's zero3_save_16bit_model is set"),
}
# the options that say them
_ASKED = {
    "train_batch_size": "global_batch_size",
    "train_micro_batch_size_per_gpu": "micro_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation",
}


@rule("ZC120", "auto-that-nobody-fills", severity="error")
def auto_that_nobody_fills(config: DsConfig, releases: Releases, reader: Reader) -> Iterator[Problem]:
    """An "auto" that neither the Trainer nor Accelerate replaces.

    Both know a short list of keys. Accelerate, which the Trainer goes through, stops at every other "auto": "`...`
    not found in kwargs" (accelerate/utils/dataclasses.py, DeepSpeedPlugin.fill_match), be it in a comment. Only
    Accelerate without the Trainer leaves optimizer.params.betas and eps. Where it is not certain who reads the file
    this is a warning, unless DeepSpeed's own parser stops as well, as on a block that is a text.

    Example:
        ```json for=trainer
        {"train_batch_size": "auto", "zero_optimization": {"stage": 2, "overlap_comm": "auto"}}
        ```

    Use instead:
        ```json for=trainer
        {"train_batch_size": "auto", "zero_optimization": {"stage": 2, "overlap_comm": true}}
        ```
    """
    if not reader.fills_auto or reader.name is None:
        return
    certain = reader.stated or _is_filled_somewhere(config, reader.name)
    release = releases.deepspeed
    stopping = {seen.path for seen in walk(config, release).known if seen.is_auto and _stops_the_parser(seen)}
    told = {seen.path for seen in walk(config, release).unknown if is_strict(seen.block, release)}
    for path in _autos(config):
        steps = tuple(map(str, path))
        key = key_table("deepspeed").key(*steps)
        is_filled = key is not None and reader.name in key.auto and key.alias_of is None  # by its full name only
        if is_filled or is_set_over(config, reader, config.path(*path)) or config.path(*path) in told:
            continue
        who = "The Trainer" if reader.name == "trainer" else "Accelerate"
        everyone = "" if certain or config.path(*path) not in stopping else ", and so does DeepSpeed's own parser"
        default = f" or leave it out (the default is {_shown(key.default)})" if key and key.default is not None else ""
        yield Problem(
            f'{who} does not fill {".".join(steps)}, and Accelerate stops at an "auto" that is left'
            f"{everyone}: write a value{default}",
            config.path(*path),
            severity=None if certain or everyone else "warning",
        )


@rule("ZC121", "auto-without-a-filler", severity="error")
def auto_without_a_filler(
    config: DsConfig, releases: Releases, reader: Reader, options: Mapping[str, object]
) -> Iterator[Problem]:
    """An "auto" in a file that DeepSpeed reads by itself.

    Only the Trainer and Accelerate replace "auto". DeepSpeed drops it in the blocks that it reads with pydantic
    (runtime/config_utils.py, DeepSpeedConfigModel), so that the default applies: "enabled" is then off, "stage" 0.
    Elsewhere it stays a text: where a number is needed it is a TypeError (train_batch_size at once,
    gradient_clipping in the first step, DeepSpeed#1270), and where true or false is, it counts as true.

    Example:
        ```json for=deepspeed
        {"train_batch_size": 8, "bf16": {"enabled": "auto"}}
        ```

    Use instead:
        ```json for=deepspeed
        {"train_batch_size": 8, "bf16": {"enabled": true}}
        ```
    """
    if reader.fills_auto:
        return
    walked = walk(config, releases.deepspeed)
    for seen in (*walked.known, *(seen for seen in walked.unknown if seen.block.unknown == "open")):
        key = seen.key
        if not seen.is_auto or AUTO in (key.enum or ()) or key.default == AUTO:
            continue
        text, severity = _without_a_filler(seen, key)
        is_stopped = is_parsed_while_off(seen.block, key)
        if severity is None and seen.block.auto == "kept" and not is_stopped and idle(config, seen.block, seen.path):
            severity = "warning"
        yield Problem(
            f'DeepSpeed does not replace "auto": {seen.shown} {text}',
            seen.path,
            fix=removed(config, seen) if seen.block.auto == "dropped" else _with_asked(config, seen, options),
            severity=severity,
        )


def _with_asked(config: DsConfig, seen: Seen, options: Mapping[str, object]) -> Fix | None:
    """A batch size as the options have it."""
    asked = options.get(_ASKED.get(seen.shown, ""))
    return None if asked is None else replaced(config, seen, int(str(asked)), str(asked), safe=False)


@rule("ZC122", "auto-that-decides-nothing", severity="warning")
def auto_that_decides_nothing(config: DsConfig, releases: Releases, reader: Reader) -> Iterator[Problem]:
    """An "auto" that is replaced by a fixed value, whatever the model and the machine.

    Accelerate fills the stage, the offload devices and stage3_gather_16bit_weights_on_model_save from its own
    settings, whose defaults are 2, none and false (accelerate/utils/dataclasses.py, DeepSpeedPlugin). Nothing
    is worked out, as "auto" makes one think.

    Example:
        ```json for=trainer
        {"train_batch_size": "auto",
         "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": "auto"}}
        ```

    Use instead:
        ```json for=trainer
        {"train_batch_size": "auto",
         "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": true}}
        ```
    """
    for seen in walk(config, releases.deepspeed).known if reader.fills_auto else ():
        fixed = _FIXED.get(seen.name)
        if not seen.is_auto or fixed is None or not seen.block.path.startswith("zero_optimization"):
            continue
        if seen.name == _GATHER and config.stage != 3:
            continue
        becomes, unless = fixed
        yield Problem(f'{seen.name} "auto" becomes {becomes}, {unless}', seen.path)


def _autos(config: DsConfig) -> Iterator[Path]:
    """The paths, from the configuration's root, of every "auto" that Accelerate's fill comes across: none in lists."""
    pending: list[tuple[Path, Node]] = [((), config.root)]
    while pending:
        path, node = pending.pop()
        if node.kind == "mapping":
            pending += [((*path, member.key), member.node) for member in node.members]
        elif node.value == AUTO and path:
            yield path


def _stops_the_parser(seen: Seen) -> bool:
    """Whether DeepSpeed's parser, too, stops on the "auto"."""
    place = seen.block.path, seen.name
    is_block = "object" in seen.key.type and seen.block.auto == "kept" and seen.name not in _LEFT_ALONE
    return is_block or is_checked(seen.block, seen.key) or place in _PARSED


def _is_filled_somewhere(config: DsConfig, name: str) -> bool:
    """Whether another "auto" of the file only makes sense to a program that fills it."""
    keys = (key_table("deepspeed").key(*map(str, path)) for path in _autos(config))
    return any(key is not None and name in key.auto for key in keys)


def _without_a_filler(seen: Seen, key: Key) -> tuple[str, Severity | None]:
    """What plain DeepSpeed makes of the "auto"."""
    if seen.block.auto == "kept":
        return _as_a_text(seen, key)
    if seen.name in {"enabled", "stage", "device"}:
        return f"falls back to its default, {_shown(key.default)}: it is off", None
    shown = _shown(key.default) if key.default is not None else "what DeepSpeed works out"
    return f"falls back to its default, {shown}", "warning"


def _as_a_text(seen: Seen, key: Key) -> tuple[str, Severity | None]:
    """What becomes of an "auto" that stays where it is."""
    if is_checked(seen.block, key) or seen.shown == "torch_autocast.dtype":
        return "stops the parser", None
    if is_boolean(key):
        return "counts as true", "info" if key.default is True else "warning"
    if seen.name == "warmup_type":
        return "is no warm-up, so that log is taken", "warning"
    if seen.block.unknown == "open":
        return f"reaches the {seen.block.path.partition('.')[0]} as a text, and building it fails", None
    return "stays a text, and DeepSpeed stops or fails where it uses it", None


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
