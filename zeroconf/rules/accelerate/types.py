"""ZC134 to ZC136: values of an Accelerate YAML that Accelerate cannot read, or reads as something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroconf.document.edits import Fix, replace
from zeroconf.rules.accelerate.reading import (
    REFUSED_BESIDE_A_FILE,
    config_file,
    inline_stage,
    is_local,
    num_machines,
    number,
    uses_deepspeed,
    whole_number,
)
from zeroconf.rules.facts import AUTO
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zeroconf.keys import Release, Releases
    from zeroconf.rules.facts import AccelerateConfig

    _Check = Callable[[Any], bool]

_PLACES = ("LOCAL_MACHINE", "AMAZON_SAGEMAKER")
_PRECISIONS = ("no", "fp8", "fp16", "bf16")
_TYPES = (
    *("DEEPSPEED", "NO", "FSDP", "MULTI_GPU", "MULTI_CPU", "MULTI_XPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA"),
    *("MULTI_MUSA", "MULTI_HPU", "MULTI_NEURON", "XLA", "MEGATRON_LM"),
)
_SAGEMAKER_TYPES = ("NO", "DATA_PARALLEL", "MODEL_PARALLEL")
_MEANT = {"bfloat16": "bf16", "float16": "fp16", "fp32": "no", "float32": "no", "none": "no"}
_TRUE = {"y", "yes", "t", "true", "on", "1"}
_TRUTH = {*_TRUE, "n", "no", "f", "false", "off", "0"}
_DEVICES = ("none", "cpu", "nvme")
_AUTO_CLIPPING_SINCE = (0, 30)
_XLA_SINCE = (0, 28)


@rule("ZC134", "accelerate-unknown-choice", severity="error")
def accelerate_unknown_choice(accelerate: AccelerateConfig, releases: Releases) -> Iterator[Problem]:
    """A value is none of the words that Accelerate knows for the key.

    `distributed_type` and `compute_environment` become enums as the file is read (accelerate/utils/dataclasses.py,
    DistributedType; any other `compute_environment` than LOCAL_MACHINE is read as SageMaker's);
    `mixed_precision` becomes one as the launch is prepared (accelerate/utils/launch.py).

    Example:
        ```yaml
        distributed_type: deepspeed
        num_processes: 8
        mixed_precision: bfloat16
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        mixed_precision: bf16
        ```
    """
    choices: dict[str, tuple[str, ...]] = {"compute_environment": _PLACES, "mixed_precision": _PRECISIONS}
    choices["distributed_type"] = _TYPES if is_local(accelerate) else _SAGEMAKER_TYPES
    if releases.accelerate < _XLA_SINCE:
        choices["distributed_type"] += ("TPU",)
    place = accelerate.path("compute_environment")
    if accelerate.has("compute_environment") and accelerate.get("compute_environment") is None:
        local = Fix("Write LOCAL_MACHINE", replace(accelerate.document, place, _PLACES[0]))
        yield Problem(f"compute_environment takes {', '.join(_PLACES)}, not null", place, fix=local)
    for name, known in choices.items():
        value = accelerate.get(name)
        is_precision = name == "mixed_precision"
        if not isinstance(value, str) or (value.lower() if is_precision else value) in known:
            continue
        meant = _MEANT.get(value.lower(), "") if is_precision else value.upper().replace("-", "_")
        path = accelerate.path(name)
        fix = Fix(f"Write {meant}", replace(accelerate.document, path, meant)) if meant in known else None
        hint = f"did you mean {meant}?" if fix else f"it takes {', '.join(known)}"
        yield Problem(f"Accelerate knows no {name} '{_shown(value)}'; {hint}", path, fix=fix)


@rule("ZC135", "accelerate-unreadable-value", severity="error")
def accelerate_unreadable_value(accelerate: AccelerateConfig, releases: Releases) -> Iterator[Problem]:
    """A value that Accelerate cannot read stops the launch or the training script.

    The fields of `deepspeed_config` travel as text in environment variables and are read back with `int`, `float`
    or a list of truth words (accelerate/utils/dataclasses.py, DeepSpeedPlugin.__post_init__): a quoted "3" is
    fine, 3.0, true or auto are not. `gradient_clipping: none` was taken until Accelerate 0.29 and is refused since
    0.30, which takes `auto` (accelerate#2649). The launcher itself computes with `num_machines`, connects to
    `main_process_port` and splits `gpu_ids` (accelerate/utils/launch.py).

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        gpu_ids: 0
        deepspeed_config:
          zero_stage: auto
          gradient_clipping: none
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        gpu_ids: '0'
        deepspeed_config:
          zero_stage: 2
          gradient_clipping: 1.0
        ```
    """
    if not is_local(accelerate):
        return
    checks: list[tuple[tuple[str, ...], _Check, str]] = [
        (("gpu_ids",), _is_text, "quoted text like '0,1', or all"),
        (("mixed_precision",), _is_text, "'no', fp8, fp16 or bf16"),
        (("deepspeed_config",), _is_mapping, "its fields, indented below it"),
        (("use_cpu",), lambda value: not isinstance(value, dict), "true or false"),
    ]
    if uses_deepspeed(accelerate):
        checks += [((name,), check, takes) for name, check, takes in _launch_checks(accelerate)]
        is_beside_a_file = config_file(accelerate) is not None
        checks += [
            (("deepspeed_config", name), check, takes)
            for name, check, takes in _field_checks(releases.accelerate)
            if not (is_beside_a_file and name in REFUSED_BESIDE_A_FILE)  # ZC270 names those
        ]
    for path, check, takes in checks:
        value = accelerate.get(*path)
        if value is None or check(value) or _is_yaml_word(accelerate, path):
            continue
        meant = _whole(value) if isinstance(value, float) else str(value) if path == ("gpu_ids",) else _number(value)
        is_cured = meant is not None and check(meant) and not isinstance(value, (list, dict))
        fix = Fix(f"Write {meant!r}", replace(accelerate.document, accelerate.path(*path), meant)) if is_cured else None
        yield Problem(f"'{path[-1]}' takes {takes}, not {_shown(value)}", accelerate.path(*path), fix=fix)


@rule("ZC136", "accelerate-flag-read-as-false", severity="error")
def accelerate_flag_read_as_false(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """zero3_save_16bit_model is set, but to something that Accelerate reads as false.

    The flag is on only for the word "true" (accelerate/utils/dataclasses.py, DeepSpeedPlugin.__post_init__:
    ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL.lower() == "true"); 1, "yes" and auto leave it off without a word,
    and stage 3 then saves no weights file.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 3
          zero3_save_16bit_model: auto
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 3
          zero3_save_16bit_model: true
        ```
    """
    value = accelerate.deepspeed("zero3_save_16bit_model")
    is_meant_so = value is None or str(value).lower() in {"true", "none", *(_TRUTH - _TRUE)}
    if is_meant_so or not uses_deepspeed(accelerate) or inline_stage(accelerate) != 3:
        return
    path = accelerate.path("deepspeed_config", "zero3_save_16bit_model")
    fix = Fix("Write true", replace(accelerate.document, path, True), safe=value != AUTO)
    yield Problem(f"zero3_save_16bit_model: {_shown(value)} counts as false; only true turns it on", path, fix=fix)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_yaml_word(accelerate: AccelerateConfig, path: tuple[str, ...]) -> bool:
    """Whether ZC013 names it: a bare no, which is false."""
    node = accelerate.node(*path)
    text = accelerate.document.text[node.start : node.end] if node else ""
    return path == ("mixed_precision",) and text.lower() in {"no", "off", "yes", "on"}


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _is_count(value: Any) -> bool:
    # -1 leaves the number to the command line
    return isinstance(value, int) and not isinstance(value, bool) and (value > 0 or value == -1)


def _is_machines(value: Any) -> bool:
    # from two on the launcher divides by it and passes the quotient on as text
    return isinstance(value, int) or (isinstance(value, float) and value <= 1)


def _is_port(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value <= 65535


def _launch_checks(accelerate: AccelerateConfig) -> Iterator[tuple[str, _Check, str]]:
    def is_processes(value: Any) -> bool:
        # torchrun reads text; with several machines or use_cpu something computes with it before
        is_computed_with = num_machines(accelerate) > 1 or accelerate.get("use_cpu")
        if is_computed_with or not isinstance(value, str):
            return _is_count(value)
        return value in {"auto", "gpu", "cpu"} or (value.isdecimal() and int(value) > 0)

    yield "num_processes", is_processes, "the number of all processes"
    yield "num_machines", _is_machines, "a whole number"
    yield "main_process_port", _is_port, "a whole number from 0 to 65535"
    if num_machines(accelerate) > 1:
        yield "machine_rank", _is_rank, "a whole number"


def _is_rank(value: Any) -> bool:
    return isinstance(value, float) or whole_number(value) is not None


def _field_checks(release: Release) -> Iterator[tuple[str, _Check, str]]:
    has_auto = release >= _AUTO_CLIPPING_SINCE
    no_clipping = AUTO if has_auto else "none"
    yield "zero_stage", lambda value: whole_number(value) in range(4), "0, 1, 2 or 3"
    yield "gradient_accumulation_steps", _is_steps, "a whole number from 1, or auto"
    yield (
        "gradient_clipping",
        lambda value: str(value).lower() == no_clipping or (number(value) is not None and not isinstance(value, bool)),
        f"a number or {no_clipping}",
    )
    yield "offload_optimizer_device", _is_device, "none, cpu or nvme"
    yield "offload_param_device", _is_device, "none, cpu or nvme"
    yield "deepspeed_config_file", _is_text, "a path"
    yield "zero3_init_flag", lambda value: str(value).lower() in _TRUTH, "true or false"
    yield (
        "deepspeed_moe_layer_cls_names",
        _is_class_names,
        "names of classes, with commas alone between",
    )


def _is_steps(value: Any) -> bool:
    text = str(value)
    return text == AUTO or (text.isdecimal() and int(text) > 0)


def _is_device(value: Any) -> bool:
    return str(value).lower() in _DEVICES


def _is_class_names(value: Any) -> bool:
    # the name of a class, which is asked for without its module (accelerate/utils/dataclasses.py)
    return isinstance(value, str) and all(name.isidentifier() for name in value.split(","))


def _whole(value: float) -> int | None:
    return int(value) if value.is_integer() else None


def _number(value: Any) -> int | None:
    """The whole number that stands in quotes."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else None


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
