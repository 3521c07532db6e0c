"""ZC111-ZC117: values that the reader of their key does not take, or takes for something else."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.facts import AUTO, keeps_points
from zeroconf.rules.idle import is_set_over
from zeroconf.rules.keys.consequences import consequence, needs_no_point, of_fraction, severity_of, shown
from zeroconf.rules.keys.cures import cure, replaced
from zeroconf.rules.keys.fits import misfit_of
from zeroconf.rules.keys.forms import form, meant_block
from zeroconf.rules.keys.near import nearest
from zeroconf.rules.keys.walk import walk
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.text.quoted import is_combined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.keys import Release, Releases
    from zeroconf.rules.facts import DsConfig, Reader
    from zeroconf.rules.keys.fits import Kind, Misfit
    from zeroconf.rules.keys.walk import Seen

_LOSS_SCALE_CHECKED_SINCE = (0, 19, 3)
# torch/nn, those that compute in lower precision
_TORCH_MODULES = {"Linear", "Bilinear", "Embedding", "LayerNorm", *(f"Conv{n}d" for n in (1, 2, 3))}
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
    for seen, misfit in _misfits(config, releases.deepspeed, reader, "type"):
        is_whole = is_combined(seen.block, seen.key) and str(seen.member.node.value).endswith(".0")
        if is_whole and not keeps_points(config, reader):
            continue  # an integer, which combines with true and false
        meant = meant_block(seen, releases.deepspeed)
        yield Problem(
            _refusal(config, seen, misfit, releases, like=form(seen, releases.deepspeed)),
            seen.path,
            fix=replaced(config, seen, meant, json.dumps(meant)) if meant else None,
            severity="warning" if is_whole and not reader.name else severity_of(config, seen, reader),
        )


@rule("ZC112", "out-of-range", severity="error")
def out_of_range(config: DsConfig, releases: Releases, reader: Reader) -> Iterator[Problem]:
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
    for seen, misfit in _misfits(config, releases.deepspeed, reader, "range"):
        key = seen.key
        default = key.default if isinstance(key.default, (int, float)) else key.minimum
        usual = f" (the default is {default})" if default is not None and default is key.default else ""
        yield Problem(
            f"{seen.shown} is {shown(seen.member.node)}, and takes {misfit.wanted}{usual};"
            f" {consequence(config, seen, releases.deepspeed)}",
            seen.path,
            fix=replaced(config, seen, default, str(default), safe=False) if default is not None else None,
            severity=severity_of(config, seen, reader),
        )


@rule("ZC113", "unknown-choice", severity="error")
def unknown_choice(config: DsConfig, releases: Releases, reader: Reader) -> Iterator[Problem]:
    """A word is none of those that the key takes.

    DeepSpeed stops on it while it reads the file (offload devices: runtime/zero/offload_config.py;
    communication_data_type and checkpoint.tag_validation: runtime/config.py), when it builds the engine, or where it
    uses the word. For two keys it takes another one instead, a warning here: an unknown warmup_type runs as "log"
    (runtime/lr_schedules.py, WarmupLR), an unknown autotuning.tuner_type as "gridsearch" (autotuning/autotuner.py).
    Where the reader lowers the case first, as for communication_data_type, any case is taken, elsewhere only the one
    listed: "Linear" is no warmup_type.

    Example:
        ```json
        {"train_batch_size": 8, "communication_data_type": "bfp16"}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "communication_data_type": "bf16"}
        ```
    """
    for seen, misfit in _misfits(config, releases.deepspeed, reader, "choice"):
        key = seen.key
        word = seen.member.node.value
        choices = [choice for choice in key.enum or () if isinstance(choice, str)]
        meant = next((choice for choice in choices if choice.lower() == word.lower()), None)
        meant = meant or _OTHER_NAMES.get(word.lower()) or nearest("", word, choices)
        yield Problem(
            _refusal(config, seen, misfit, releases),
            seen.path,
            fix=replaced(config, seen, meant, json.dumps(meant)) if meant in choices else None,
            severity=severity_of(config, seen, reader),
        )


@rule("ZC114", "wrong-items", severity="error")
def wrong_items(config: DsConfig, releases: Releases, reader: Reader) -> Iterator[Problem]:
    """A list holds something that the key does not take.

    DeepSpeed checks the items of the lists in its pydantic blocks (runtime/zero/leaf_module_config.py) and passes
    the others on, to an optimizer that cannot use them. Names in torch_autocast.lower_precision_safe_modules are
    imported: "Failed to import lower precision safe module" (runtime/torch_autocast.py, init_autocast_params).

    Example:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "betas": [0.9, null]}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "betas": [0.9, 0.999]}}}
        ```
    """
    for seen, misfit in _misfits(config, releases.deepspeed, reader, "item"):
        yield Problem(_refusal(config, seen, misfit, releases), seen.path, severity=severity_of(config, seen, reader))
    names = config.get("torch_autocast", "lower_precision_safe_modules")
    for index, name in enumerate(names if isinstance(names, list) and config.enabled("torch_autocast") else ()):
        if isinstance(name, str) and not all(name.rpartition(".")):
            path = config.path("torch_autocast", "lower_precision_safe_modules", index)
            meant = edits.replace(config.document, path, f"torch.nn.{name}") if name in _TORCH_MODULES else ()
            yield Problem(
                "torch_autocast.lower_precision_safe_modules takes a class with its module, like torch.nn.Linear, not"
                f' "{name}"; DeepSpeed fails to import it',
                path,
                fix=cure(f"Write torch.nn.{name}", meant, safe=False),
            )


@rule("ZC115", "fractional-integer", severity="error")
def fractional_integer(config: DsConfig, releases: Releases, reader: Reader) -> Iterator[Problem]:
    """A number with a fraction stands where DeepSpeed takes an integer.

    The pydantic blocks refuse it ("got a number with a fractional part", runtime/zero/config.py): a prefetch bucket
    computed as 0.9 x hidden size squared, or min_loss_scale 0.5, which stops DeepSpeed even where fp16 is off. Of the
    batch sizes DeepSpeed computes the product as it is; the DataLoader and the Trainer refuse the fraction.

    Example:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": true, "min_loss_scale": 0.5}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": true, "min_loss_scale": 1}}
        ```
    """
    for seen, misfit in _misfits(config, releases.deepspeed, reader, "fraction"):
        key = seen.key
        value = seen.member.node.value
        whole = max(round(value), int(key.minimum or 0), int(key.exclusive_minimum or -1) + 1, 1)
        severity, does = of_fraction(config, seen, reader, releases.deepspeed)
        yield Problem(
            f"{seen.shown} takes {misfit.wanted}, not {shown(seen.member.node)}; {does}",
            seen.path,
            fix=replaced(config, seen, whole, str(whole), safe=value > 100),
            severity=severity,
        )
    for seen in walk(config, releases.deepspeed).known if keeps_points(config, reader) else ():
        number = config.number(*seen.path[len(config.prefix) :])
        if isinstance(number, float) and number.is_integer() and needs_no_point(config, seen):
            yield Problem(
                f"{seen.shown} is {shown(seen.member.node)}, which is no integer to its reader;"
                f" {consequence(config, seen, releases.deepspeed)}",
                seen.path,
                fix=replaced(config, seen, int(number), str(int(number))),
                severity=severity_of(config, seen, reader) if reader.name else "warning",
            )


@rule("ZC116", "loose-value", severity="info")
def loose_value(config: DsConfig, releases: Releases, reader: Reader) -> Iterator[Problem]:
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
    for seen, misfit in _misfits(config, releases.deepspeed, reader, "coerced"):
        is_text = isinstance(seen.member.node.value, str)
        yield Problem(
            f"{seen.shown} is {shown(seen.member.node)}, which DeepSpeed reads as {misfit.wanted}",
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
            f"{seen.shown} is {shown(seen.member.node)}, and dynamic loss scaling needs more than 0 (the default is"
            f" {default}); {does}",
            seen.path,
            fix=replaced(config, seen, default, str(default)),
            severity=None if on and releases.deepspeed >= _LOSS_SCALE_CHECKED_SINCE else "warning",
        )


@lru_cache(maxsize=1)  # each of the rules wants its kind of one file
def _all_misfits(config: DsConfig, release: Release) -> tuple[tuple[Seen, Misfit], ...]:
    found = ((seen, misfit_of(seen.block, seen.key, seen.member.node, release)) for seen in walk(config, release).known)
    return tuple((seen, misfit) for seen, misfit in found if misfit is not None)


def _misfits(config: DsConfig, release: Release, reader: Reader, kind: Kind) -> Iterator[tuple[Seen, Misfit]]:
    for seen, misfit in _all_misfits(config, release):
        if misfit.kind == kind and not is_set_over(config, reader, seen.path):
            yield seen, misfit


def _refusal(config: DsConfig, seen: Seen, misfit: Misfit, releases: Releases, *, like: str = "") -> str:
    does = consequence(config, seen, releases.deepspeed)
    return f"{seen.shown} takes {misfit.wanted}{like}, not {shown(seen.member.node)}; {does}"
