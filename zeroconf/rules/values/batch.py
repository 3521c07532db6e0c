"""ZC201-ZC205: batch sizes, and what a file needs before anything else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.facts import AUTO
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import count, is_for_inference, number, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zeroconf.rules.facts import DsConfig, Reader

_TRAIN, _MICRO, _STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
_KEYS = (_TRAIN, _MICRO, _STEPS)


@rule("ZC201", "batch-product", severity="error")
def batch_product(config: DsConfig) -> Iterator[Problem]:
    """The batch sizes fit no number of GPUs.

    DeepSpeed stops unless train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x
    data-parallel ranks, and divides without a remainder for the one that is missing (runtime/config.py,
    _batch_assertion and _set_batch_related_parameters; DeepSpeed#3228, DeepSpeed#17). How many ranks there will be
    does not stand in the file, but here no number of them helps. With sequence parallelism the data-parallel ranks are
    world size / sequence_parallel_size, or data_parallel_size.

    Example:
        ```json
        {"train_batch_size": 30, "train_micro_batch_size_per_gpu": 4}
        ```

    Use instead:
        ```json
        {"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4}
        ```
    """
    train, micro, steps = (count(config, key) for key in _KEYS)
    if train is None or train < 1 or any(value is not None and value < 1 for value in (micro, steps)):
        return
    if any(config.get(key) is not None and config.get(key) != AUTO and count(config, key) is None for key in _KEYS):
        return
    per_step = (micro or 1) * (steps or 1)
    product = " x ".join(f"{key} {value}" for key, value in ((_MICRO, micro), (_STEPS, steps)) if value)
    ranks = whole(config, "data_parallel_size")
    sequence = whole(config, "sequence_parallel_size")
    if sequence is None or sequence < 1:
        sequence, ranks = 1, None
    if micro and steps and ranks and ranks > 0 and train != per_step * ranks:
        yield Problem(
            f"{_TRAIN} {train} is not {product} x data_parallel_size {ranks} = {per_step * ranks}", config.path(_TRAIN)
        )
        return
    # the parser divides by world size / sequence_parallel_size, which need not be whole
    if train * (sequence if steps else 1) % per_step == 0:
        return
    below, above = train // per_step * per_step, (train // per_step + 1) * per_step
    nearest = f"{below} or {above}" if below else str(above)
    yield Problem(
        f"{_TRAIN} {train} is no multiple of {product}{f' = {per_step}' if micro and steps else ''}, so it fits no"
        f" number of GPUs; {nearest} does, or leave {_TRAIN} out",
        config.path(_TRAIN),
        fix=cure(f"Remove {_TRAIN}", edits.remove(config.document, config.path(_TRAIN)), safe=False) if micro else None,
    )


@rule("ZC202", "no-batch-size", severity="error")
def no_batch_size(config: DsConfig, reader: Reader, options: Mapping[str, object]) -> Iterator[Problem]:
    """The file names no batch size.

    DeepSpeed needs train_batch_size or train_micro_batch_size_per_gpu (runtime/config.py,
    _set_batch_related_parameters; DeepSpeed#17); gradient_accumulation_steps alone does not do. The Trainer and
    Accelerate fill an "auto", but add no key that is missing, and no null. Frameworks that put the batch sizes in
    themselves (Lightning, mistral) need none, so this is an error only when `--for` says who reads the file, or where
    a null keeps them from it. Where elasticity is on, it computes them (releases until 0.19.7).

    Example:
        ```json for=trainer
        {"zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json for=trainer
        {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
        ```
    """
    if config.get(_TRAIN) is not None or config.get(_MICRO) is not None or config.is_on("elasticity", "enabled"):
        return
    alone = f": {_STEPS} alone gives none" if config.get(_STEPS) is not None else ""
    nulls = [key for key in (_MICRO, _TRAIN) if config.has(key)]
    if nulls:
        alone = f": a null {nulls[0]} is none, and nobody fills it"
    value = AUTO if reader.fills_auto else _asked_micro(options)
    written = '"auto"' if reader.fills_auto else "a number"
    is_certain = reader.stated or _MICRO in nulls  # Lightning leaves a key that is there
    yield Problem(
        f"DeepSpeed needs {_TRAIN} or {_MICRO}{alone}; write {_MICRO} with {written}"
        + ("" if is_certain else ", unless your framework puts it in"),
        config.path(nulls[0] if nulls else _MICRO),
        fix=None if value is None else cure(f"Add {_MICRO}", _with_micro(config, value), safe=False),
        severity=None if is_certain else "warning" if nulls else "info",
        lacks=() if nulls else (config.path(_TRAIN), config.path(_MICRO)),
    )


def _with_micro(config: DsConfig, value: object) -> tuple[edits.Edit, ...]:
    return edits.insert(config.document, config.path(_MICRO), value)


def _asked_micro(options: Mapping[str, object]) -> int | None:
    """What the options ask for, else 1, as everywhere; None where it follows from two others and the ranks."""
    if micro := options.get("micro_batch_size"):
        return int(str(micro))
    return None if options.get("global_batch_size") and options.get("gradient_accumulation") else 1


@rule("ZC203", "batch-size-with-a-point", severity="warning")
def batch_size_with_a_point(config: DsConfig) -> Iterator[Problem]:
    """A batch size is written as a decimal number.

    DeepSpeed's parser takes 8.0 (runtime/config.py, _batch_assertion), but its DataLoader stops with "batch_size should
    be a positive integer value, but got batch_size=4.0" (runtime/dataloader.py).

    Example:
        ```json
        {"train_batch_size": 8.0}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8}
        ```
    """
    for key in _KEYS:
        value = number(config, key)
        if isinstance(value, float) and value.is_integer():
            path = config.path(key)
            yield Problem(
                f"{key} {value} is no integer to the DataLoader; write {int(value)}",
                path,
                fix=cure(f"Write {int(value)}", edits.replace(config.document, path, int(value))),
            )


@rule("ZC204", "accumulation-not-in-file", severity="info")
def accumulation_not_in_file(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """The Trainer's gradient accumulation does not reach DeepSpeed.

    Without gradient_accumulation_steps in the file the engine works with 1 while the Trainer accumulates on its own
    (transformers/integrations/deepspeed.py, trainer_config_process fills only keys that are there). The weights come
    out the same; DeepSpeed's batch size, throughput and step counts are wrong by that factor (related:
    huggingface/accelerate#1970).

    Example:
        ```json for=trainer
        {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json for=trainer
        {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
         "zero_optimization": {"stage": 2}}
        ```
    """
    if reader.name != "trainer" or config.get(_STEPS) is not None or is_for_inference(config):
        return
    if config.get(_TRAIN) is None and config.get(_MICRO) is None:
        return
    path = config.path(_STEPS)
    yield Problem(
        f"without {_STEPS} DeepSpeed reports batch size and throughput for 1 step; "
        'write "auto" so that it knows the Trainer\'s value',
        path,
        fix=cure(f'Add {_STEPS} "auto"', edits.insert(config.document, path, AUTO), safe=reader.stated),
    )


@rule("ZC205", "no-zero-block", severity="error")
def no_zero_block(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """Accelerate and the Trainer refuse a file without zero_optimization.

    "Please specify the ZeRO optimization config in the DeepSpeed config" (accelerate/utils/dataclasses.py,
    DeepSpeedPlugin.__post_init__), also for plain data parallelism. DeepSpeed itself runs stage 0 without it, and
    takes true for stage 1, at which Accelerate stops: "'bool' object has no attribute 'get'".

    Example:
        ```json for=trainer
        {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}
        ```

    Use instead:
        ```json for=trainer
        {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
         "zero_optimization": {"stage": 0}}
        ```
    """
    if not reader.fills_auto:
        return
    path = config.path("zero_optimization")
    block = config.get("zero_optimization", default=False)
    if config.has("zero_optimization"):
        if isinstance(block, bool):
            stage = {"stage": int(block)}
            yield Problem(
                f"Accelerate and the Trainer stop where zero_optimization is no block; write {json.dumps(stage)}",
                path,
                fix=cure(f"Write stage {int(block)}", edits.replace(config.document, path, stage)),
                severity=None if reader.stated else "warning",
            )
        return
    yield Problem(
        'Accelerate and the Trainer stop without zero_optimization; {"stage": 0} keeps ZeRO off',
        path,
        fix=cure("Add stage 0", edits.insert(config.document, path, {"stage": 0}), safe=reader.stated),
        severity=None if reader.stated else "warning",
    )
