"""ZC229-ZC232, ZC279: the learning-rate scheduler that the file names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.facts import AUTO, keeps_points
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.names import meant_type, unknown_params
from zeroconf.rules.values.settings import number, precision, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.keys import Releases
    from zeroconf.rules.facts import DsConfig, Reader

_WARM_UP = ("warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type", "last_batch_iteration")
# runtime/lr_schedules.py: the parameters without a default, then the others
_OWN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "WarmupLR": ((), _WARM_UP),
    "WarmupDecayLR": (("total_num_steps",), _WARM_UP),
    "WarmupCosineLR": (
        ("total_num_steps",),
        ("warmup_min_ratio", "warmup_num_steps", "cos_min_ratio", "warmup_type", "last_batch_iteration"),
    ),
    "OneCycle": (
        ("cycle_min_lr", "cycle_max_lr"),
        (
            *("decay_lr_rate", "cycle_first_step_size", "cycle_second_step_size", "cycle_first_stair_count"),
            *("cycle_second_stair_count", "decay_step_size", "cycle_momentum", "cycle_min_mom", "cycle_max_mom"),
            *("decay_mom_rate", "last_batch_iteration"),
        ),
    ),
    "LRRangeTest": (
        (),
        (
            *("lr_range_test_min_lr", "lr_range_test_step_size", "lr_range_test_step_rate"),
            *("lr_range_test_staircase", "last_batch_iteration"),
        ),
    ),
}
# torch.optim.lr_scheduler of PyTorch 2.13
_TORCH = {
    *("ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR"),
    *("ExponentialLR", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR"),
    *("ReduceLROnPlateau", "SequentialLR", "StepLR"),
}
# the Trainer's lr_scheduler_type, and the type of the same shape
_TRAINER = {"constant_with_warmup": "WarmupLR", "cosine": "WarmupCosineLR", "linear": "WarmupDecayLR"}
_STEPS_CHECKED_SINCE = (0, 19, 3)
_PER_GROUP = ("warmup_min_lr", "warmup_max_lr", "cycle_min_lr", "cycle_max_lr", "lr_range_test_min_lr")


@rule("ZC229", "unknown-scheduler", severity="error")
def unknown_scheduler(config: DsConfig) -> Iterator[Problem]:
    """DeepSpeed has no scheduler of this name.

    "DeepSpeed does not recognize LR scheduler" (runtime/engine.py, _scheduler_from_config): it has LRRangeTest,
    OneCycle, WarmupLR, WarmupDecayLR and WarmupCosineLR, and takes the classes of torch.optim.lr_scheduler, all
    written exactly so.

    Example:
        ```json
        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecay", "params": {"total_num_steps": 1000}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 1000}}}
        ```
    """
    name = _type(config)
    if name is None or name in _OWN or name in _TORCH:
        return
    path = config.path("scheduler", "type")
    meant = _TRAINER.get(name.lower()) or meant_type(name, _OWN) or meant_type(name, _TORCH)
    yield Problem(
        f"DeepSpeed does not know the scheduler {name}: "
        + (f"it is {meant}" if meant else f"it has {', '.join(_OWN)}"),
        path,
        fix=cure(
            f"Write {meant}",
            edits.replace(config.document, path, meant) if meant else (),
            safe=meant is not None and meant.lower() == name.lower(),
        ),
    )


@rule("ZC230", "torch-scheduler-on-wrapped-optimizer", severity="error")
def torch_scheduler_on_wrapped_optimizer(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """A torch scheduler from the file does not work with ZeRO, fp16 or bf16.

    DeepSpeed gives it the wrapped optimizer, and torch stops: "DeepSpeedZeroOptimizer is not an Optimizer"
    (runtime/engine.py, _scheduler_from_config). Only fp32 at stage 0 keeps the plain one. A torch scheduler made by
    the script gets torch's own optimizer and works.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2},
         "scheduler": {"type": "CosineAnnealingLR", "params": {"T_max": 1000}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2},
         "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 1000}}}
        ```
    """
    name, dtype = _type(config), precision(config, reader)
    if name not in _TORCH or config.stage is None or (config.stage == 0 and dtype in {None, "fp32"}):
        return
    wrapper = f"stage {config.stage}" if config.stage else str(dtype)
    yield Problem(
        f"with {wrapper} DeepSpeed wraps the optimizer and torch's {name} refuses it; use one of {', '.join(_OWN)}, or"
        " make it in the script",
        config.path("scheduler", "type"),
    )


@rule("ZC231", "scheduler-params", severity="error")
def scheduler_params(config: DsConfig, reader: Reader, releases: Releases) -> Iterator[Problem]:
    """The scheduler lacks a parameter, or does not take one.

    scheduler.params go to the scheduler's constructor as they are (runtime/engine.py, _scheduler_from_config;
    runtime/lr_schedules.py). WarmupDecayLR and WarmupCosineLR need total_num_steps, the optimizer steps of the whole
    run (DeepSpeed#633); WarmupCosineLR takes ratios instead of warmup_min_lr and warmup_max_lr. No params at all stop
    every scheduler: write {}.

    Example:
        ```json
        {"train_batch_size": 8, "scheduler": {"type": "WarmupCosineLR",
         "params": {"total_num_steps": 1000, "warmup_min_lr": 0, "warmup_max_lr": 0.001}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "scheduler": {"type": "WarmupCosineLR",
         "params": {"total_num_steps": 1000, "warmup_min_ratio": 0}}}
        ```
    """
    name, node = _type(config), config.node("scheduler", "params")
    if name is None or (name not in _OWN and name not in _TORCH):
        return
    path = config.path("scheduler", "params")
    if config.get("scheduler", "params") is None:
        fix = edits.replace if node else edits.insert
        yield Problem(
            f"{name} without params stops DeepSpeed; write " + ("{}" if not _OWN.get(name, ((),))[0] else "them"),
            path,
            fix=cure("Add params {}", fix(config.document, path, {})) if not _OWN.get(name, ((),))[0] else None,
        )
        return
    if node is None or node.kind != "mapping" or name not in _OWN:
        return
    needed, others = _OWN[name]
    of_others = {param for groups in _OWN.values() for group in groups for param in group}
    unknown = list(unknown_params(config, "scheduler", (*needed, *others), of_others, name, releases.deepspeed))
    meant = {near for near, _ in unknown}
    for key in needed:
        if node.member(key) is None and key not in meant:
            is_filled = reader.fills_auto and key == "total_num_steps"
            made = edits.insert(config.document, (*path, key), AUTO) if is_filled else ()
            yield Problem(f"{name} needs {key}", (*path, key), fix=cure(f'Add {key} "auto"', made))
    yield from (problem for _, problem in unknown)


@rule("ZC232", "scheduler-steps", severity="error")
def scheduler_steps(config: DsConfig, reader: Reader, releases: Releases) -> Iterator[Problem]:
    """The scheduler's step counts do not work out.

    warmup_num_steps and lr_range_test_step_size must be integers above 0, cycle_first_step_size a number above 0
    (runtime/lr_schedules.py; before 0.19.4 some of them divide by zero at the first step instead). A warm-up that is
    longer than total_num_steps never reaches its decay, a warning to DeepSpeed. The Trainer compares total_num_steps
    with its own count (transformers/integrations/deepspeed.py, trainer_config_finalize), which is no fraction.

    Example:
        ```json
        {"train_batch_size": 8, "scheduler": {"type": "LRRangeTest", "params": {"lr_range_test_step_size": 0}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "scheduler": {"type": "LRRangeTest", "params": {"lr_range_test_step_size": 200}}}
        ```
    """
    name = _type(config)
    if name not in _OWN:
        return
    params = ("scheduler", "params")
    for key, is_integer in (("lr_range_test_step_size", True), ("cycle_first_step_size", False)):
        value = number(config, *params, key)
        if (
            value is not None
            and key in _OWN[name][1]
            and (value <= 0 or (is_integer and isinstance(value, float) and keeps_points(config, reader)))
        ):
            yield Problem(
                f"{key} must be {'an integer' if is_integer else 'a number'} above 0", config.path(*params, key)
            )
    second = number(config, *params, "cycle_second_step_size")
    if name == "OneCycle" and second is not None and second < 0:
        yield Problem("cycle_second_step_size must not be negative", config.path(*params, "cycle_second_step_size"))
    if "warmup_num_steps" not in _OWN[name][1]:
        return
    warm_up, total = number(config, *params, "warmup_num_steps"), whole(config, *params, "total_num_steps")
    path = config.path(*params, "warmup_num_steps")
    is_checked = releases.deepspeed >= _STEPS_CHECKED_SINCE and keeps_points(config, reader)
    if is_checked and isinstance(warm_up, float) and warm_up.is_integer() and warm_up > 0:
        fix = edits.replace(config.document, path, int(warm_up))
        yield Problem(f"warmup_num_steps {warm_up} must be an integer", path, fix=cure(f"Write {int(warm_up)}", fix))
    steps = number(config, *params, "total_num_steps")
    if reader.stated and reader.name == "trainer" and steps is not None and total is None:
        yield Problem(
            f"total_num_steps {steps:g} is none of the Trainer's step counts: it compares them and stops",
            config.path(*params, "total_num_steps"),
        )
    if warm_up is not None and total is not None and name != "WarmupLR" and total < warm_up:
        yield Problem(
            f"a warm-up of {warm_up:g} steps is longer than the run of {total}: the learning rate never decays",
            path,
            severity="warning",
        )


@rule("ZC279", "rates-per-parameter-group", severity="error")
def rates_per_parameter_group(config: DsConfig) -> Iterator[Problem]:
    """Learning rates stand in lists whose lengths no optimizer fits.

    A list holds one rate for each parameter group of the optimizer: "expected 1 value for max_lr, got 2"
    (runtime/lr_schedules.py, _format_param). Two lists of different lengths, or one without any, fit none; a list of
    several fits a script that makes as many groups, and is reported as an info.

    Example:
        ```json
        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR",
         "params": {"warmup_min_lr": [0, 0], "warmup_max_lr": [0.001]}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR",
         "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.001}}}
        ```
    """
    name = _type(config)
    given = {
        key: config.get("scheduler", "params", key) for key in _PER_GROUP if key in sum(_OWN.get(name or "", ()), ())
    }
    counts = {key: len(rates) for key, rates in given.items() if isinstance(rates, list)}
    for key, count in counts.items():
        path, first = config.path("scheduler", "params", key), next(iter(counts))
        if count != counts[first]:
            yield Problem(f"{count} rates here and {counts[first]} in {first}: both are one for each group", path)
        elif count == 0:
            yield Problem(f"{key} holds no rate, and an optimizer has at least one parameter group", path)
        elif count > 1:
            message = f"{count} rates: DeepSpeed stops unless the script's optimizer has {count} parameter groups"
            yield Problem(message, path, severity="info")


def _type(config: DsConfig) -> str | None:
    name = config.get("scheduler", "type")
    return name if isinstance(name, str) and name != AUTO else None
