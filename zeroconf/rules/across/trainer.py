"""ZC505, ZC510 and ZC512: the Trainer's arguments on a launch line against the files that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.rules.accelerate.reading import config_file, uses_deepspeed
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.trainer import ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.node import Path
    from zeroconf.rules.launch import Launch
    from zeroconf.rules.named import Named

# HfArgumentParser's defaults of TrainingArguments where only the other half of a pair is given
_DEFAULT_BETAS = {"adam_beta1": 0.9, "adam_beta2": 0.999}


@rule("ZC505", "trainer-arguments-against-config", severity="error")
def trainer_arguments_against_config(launch: Launch, named: Named) -> Iterator[Problem]:
    """An argument of the Trainer says otherwise than the ds_config.json.

    "Please correct the following DeepSpeed config values that mismatch TrainingArguments values"
    (transformers/integrations/deepspeed.py, trainer_config_process and fill_match; transformers PR#12021): whatever is
    not "auto" in the file must equal the argument. Where accelerate launch hands over the file, and the line does not
    show whether the program uses the Trainer, a warning: without it the file's value silently wins, and the program
    works with its own.

    Example:
        ```shell ds.json={"train_micro_batch_size_per_gpu":4,"fp16":{"enabled":true},"zero_optimization":{"stage":2}}
        deepspeed --num_gpus 8 train.py --deepspeed ds.json --per_device_train_batch_size 4 --bf16 True
        ```

    Use instead:
        ```shell ds.json={"train_micro_batch_size_per_gpu":4,"bf16":{"enabled":true},"zero_optimization":{"stage":2}}
        deepspeed --num_gpus 8 train.py --deepspeed ds.json --per_device_train_batch_size 4 --bf16 True
        ```
    """
    for steps, names in ARGUMENTS.items():
        value = named.config.get(*steps)
        said = _said(launch, steps, names)
        if value is None or value == "auto" or said is None or value == said[0]:
            continue
        key, (argument, path) = ".".join(steps), said[1:]
        harm = "the Trainer refuses" if launch.is_for_trainer else "the Trainer refuses, and another program ignores,"
        yield Problem(
            f"{argument} against {key} {_shown(value)} in {named.path}: {harm} the difference; write one value in"
            ' both, or "auto" in the file',
            path,
            severity=None if launch.is_for_trainer else "warning",
        )


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _said(launch: Launch, steps: tuple[str, ...], names: tuple[str, ...]) -> tuple[object, str, Path] | None:
    """What the arguments make of the key, as they are written, and where; None where they do not say it."""
    if steps[-1] == "enabled":
        return _precision_said(launch, names[0])
    given = [(name, launch.program(f"--{name}")) for name in names]
    first = next((one for _, one in given if one is not None), None)
    if first is None:
        return None
    numbers = [_number(one.text) if one else _DEFAULT_BETAS.get(name) for name, one in given]
    if any(number is None for number in numbers) or (steps[-1].endswith("num_steps") and (numbers[0] or 0) < 1):
        return None
    written = " ".join(f"{one.name} {one.text}" for _, one in given if one)
    return (numbers if len(numbers) > 1 else numbers[0]), written, first.path


def _precision_said(launch: Launch, name: str) -> tuple[object, str, Path] | None:
    """Whether bf16 or fp16 is on: TrainingArguments take one of them at most, so that one on has the other off."""
    for argument, means in ((name, True), ("fp16" if name == "bf16" else "bf16", False)):
        given, is_on = launch.program(f"--{argument}"), launch.flag(f"--{argument}")
        if given is None or is_on is None or launch.program(f"--{name}_full_eval"):
            continue
        if means or is_on:
            return is_on is means, f"{given.name} {_shown(is_on)}", given.path
    return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@rule("ZC512", "trainer-arguments-against-yaml", severity="warning")
def trainer_arguments_against_yaml(launch: Launch) -> Iterator[Problem]:
    """An argument of the program says otherwise than the inline fields of the Accelerate YAML.

    accelerate launch makes a ds_config of them, with which the Trainer compares its arguments: "ds
    gradient_accumulation_steps=4 vs hf gradient_accumulation_steps=2" (transformers/integrations/deepspeed.py,
    fill_match; LLaMA-Factory#201). Without the Trainer the YAML wins, and the program counts its own steps.

    Example:
        ```shell acc.yaml=gradient_accumulation_steps:4
        accelerate launch --config_file acc.yaml train.py --gradient_accumulation_steps 2
        ```

    Use instead:
        ```shell acc.yaml=gradient_accumulation_steps:4
        accelerate launch --config_file acc.yaml train.py --gradient_accumulation_steps 4
        ```
    """
    yaml = launch.accelerate
    if yaml is None or not uses_deepspeed(yaml) or config_file(yaml) is not None:
        return
    for field, argument in (
        ("gradient_accumulation_steps", "gradient_accumulation_steps"),
        ("gradient_clipping", "max_grad_norm"),
    ):
        # the launcher's own option comes before the YAML
        given, over = launch.program(f"--{argument}"), launch.launcher(f"--{field}")
        said, own = _number(str(yaml.deepspeed(field))), _number(given.text) if given else None
        if given and over is None and said is not None and own is not None and said != own:
            yield Problem(
                f"{given.name} {given.text} against {field} {yaml.deepspeed(field)} in {yaml.document.path}: the"
                " Trainer refuses the difference, and another program loses to the YAML; write one value in both",
                given.path,
            )


@rule("ZC510", "trainer-arguments-refused", severity="error")
def trainer_arguments_refused(launch: Launch, named: Named) -> Iterator[Problem]:
    """Arguments of the Trainer that it refuses with this file.

    "`auto_find_batch_size` isn't supported yet with DeepSpeed Zero-3", and "DeepSpeed can't be used with
    `save_only_model` along with `load_best_model_at_end`" (transformers/trainer.py; transformers#27751).

    Example:
        ```shell ds.json={"train_micro_batch_size_per_gpu":"auto","zero_optimization":{"stage":3}}
        deepspeed --num_gpus 8 train.py --deepspeed ds.json --auto_find_batch_size true
        ```

    Use instead:
        ```shell ds.json={"train_micro_batch_size_per_gpu":"auto","zero_optimization":{"stage":2}}
        deepspeed --num_gpus 8 train.py --deepspeed ds.json --auto_find_batch_size true
        ```
    """
    if not launch.is_for_trainer:
        return
    if launch.flag("--auto_find_batch_size") and named.config.stage == 3:
        yield Problem(
            f"the Trainer refuses --auto_find_batch_size with stage 3 of {named.path}",
            launch.path("program", "--auto_find_batch_size"),
        )
    if launch.flag("--save_only_model") and launch.flag("--load_best_model_at_end"):
        yield Problem(
            "the Trainer refuses --load_best_model_at_end with --save_only_model under DeepSpeed: nothing to load",
            launch.path("program", "--save_only_model"),
        )
