"""A ds_config.json or an Accelerate YAML as a plan: what the estimate and the smoke test start from."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from zeroconf.errors import InputError
from zeroconf.inputs.text import parse_yaml, read_text
from zeroconf.types import Device, Plan, Precision

if TYPE_CHECKING:
    from collections.abc import Mapping

_LARGEST_FILE_BYTES = 10_000_000
_DEVICES: tuple[Device, ...] = get_args(Device)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """A configuration's JSON content, and what of a plan it says. None: the file leaves it open ("auto", absent)."""

    path: str
    content: dict[str, Any]
    micro_batch_size: int | None
    gradient_accumulation_steps: int | None
    precision: Precision
    plan: Plan


def read_config(path: Path) -> ConfigFile:
    """Reads DeepSpeed JSON, or an Accelerate YAML that names one or holds its few inline fields.

    Raises:
        InputError: unreadable, malformed, or values of the wrong kind.
    """
    text = read_text(path, _LARGEST_FILE_BYTES)
    read = _from_accelerate if path.suffix in {".yaml", ".yml"} else _json_object
    content = read(text, path)
    return parse_config(content, str(path))


def parse_config(content: dict[str, Any], path: str) -> ConfigFile:
    """The plan in a ds_config's content, with DeepSpeed's defaults for what is absent or "auto"."""
    zero = content.get("zero_optimization", {})
    if not isinstance(zero, dict):
        msg = f"{path}: zero_optimization is not an object; write {{'stage': ...}}"
        raise InputError(msg)
    micro = _count(content, "train_micro_batch_size_per_gpu", path)
    steps = _count(content, "gradient_accumulation_steps", path)
    stage = _number(zero, "stage", 0, path)
    if not 0 <= stage <= 3:
        msg = f"{path}: zero_optimization.stage is {stage}; it is 0 to 3"
        raise InputError(msg)
    defaults = Plan(stage=stage, micro_batch_size=micro or 1, gradient_accumulation_steps=steps or 1)
    plan = replace(
        defaults,
        offload_optimizer=_device(zero, "offload_optimizer", path) if stage > 0 else "none",
        offload_param=_device(zero, "offload_param", path) if stage == 3 else "none",
        zero_hpz_partition_size=_number(zero, "zero_hpz_partition_size", 1, path) if stage == 3 else 1,
        multi_rank_bucket_allreduce=zero.get("use_multi_rank_bucket_allreduce") is not False,
        overlap_comm=_flag(zero, "overlap_comm", stage == 3),
        reduce_bucket_size=_number(zero, "reduce_bucket_size", defaults.reduce_bucket_size, path),
        prefetch_bucket_size=_stage_3_number(zero, "prefetch_bucket_size", defaults, path),
        param_persistence_threshold=_stage_3_number(zero, "param_persistence_threshold", defaults, path),
        max_live_parameters=_stage_3_number(zero, "max_live_parameters", defaults, path),
        max_reuse_distance=_stage_3_number(zero, "max_reuse_distance", defaults, path),
        sub_group_size=_number(zero, "sub_group_size", defaults.sub_group_size, path) or 1,
    )
    return ConfigFile(
        path=path,
        content=content,
        micro_batch_size=micro,
        gradient_accumulation_steps=steps,
        precision=_precision(content),
        plan=plan,
    )


def _json_object(text: str, path: Path) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        msg = f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}"
        raise InputError(msg) from None
    except (RecursionError, ValueError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        msg = f"{path}: not a configuration: {problem}"
        raise InputError(msg) from None
    if not isinstance(content, dict):
        msg = f"{path}: a ds_config.json is one JSON object"
        raise InputError(msg)
    return content


def _from_accelerate(text: str, path: Path) -> dict[str, Any]:
    """The JSON that the YAML names, or a ds_config built from its inline fields as DeepSpeedPlugin does."""
    content = parse_yaml(text, str(path))
    if isinstance(content, dict) and "zero_optimization" in content:
        return content
    inline = content.get("deepspeed_config") if isinstance(content, dict) else None
    if not isinstance(inline, dict):
        msg = f"{path}: no deepspeed_config in this YAML; give a ds_config.json or an Accelerate YAML for DeepSpeed"
        raise InputError(msg)
    named = inline.get("deepspeed_config_file")
    if isinstance(named, str):
        target = Path(named)
        beside = path.parent / named
        return _json_object(read_text(target if target.exists() else beside, _LARGEST_FILE_BYTES), target)
    return _inline_config(inline, content)


def _inline_config(inline: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    precision = str(content.get("mixed_precision", "no")).lower()
    zero: dict[str, Any] = {"stage": inline.get("zero_stage", 2)}
    for ours, theirs in (("offload_optimizer", "offload_optimizer_device"), ("offload_param", "offload_param_device")):
        if theirs in inline:
            zero[ours] = {"device": str(inline[theirs]).lower()}
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": inline.get("gradient_accumulation_steps", 1),
        "gradient_clipping": inline.get("gradient_clipping", 1.0),
        "zero_optimization": zero,
    }
    if precision in {"bf16", "fp16"}:
        config[precision] = {"enabled": True}
    return config


def _is_open(value: object) -> bool:
    return value is None or value == "auto"


def _number(block: Mapping[str, Any], key: str, default: int, path: str) -> int:
    value = block.get(key)
    if _is_open(value):
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) > 10**18:  # noqa: PLR0124
        msg = f"{path}: {key} is {json.dumps(value, default=str)[:60]}; {_wanted(value)}"
        raise InputError(msg)
    if value < 0 or value != int(value):
        msg = f"{path}: {key} is {value}; it is a whole number, 0 or more"
        raise InputError(msg)
    return int(value)


def _wanted(value: object) -> str:
    """What to write instead of something that is no number in range."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return "it is a number"
    try:
        number = float(value)
    except ValueError:
        return "it is a number"
    if not abs(number) <= 10**18:
        return "it is a number from 0 to 1e18"
    # YAML 1.1 reads a bare 5e8 as text, too
    return f"write it without quotes, as {int(number) if number == int(number) else number}"


def _stage_3_number(zero: Mapping[str, Any], key: str, defaults: Plan, path: str) -> int:
    """Stage 3's keys are legal with and without their prefix."""
    default: int = getattr(defaults, key)
    return _number(zero, key, _number(zero, f"stage3_{key}", default, path), path)


def _count(content: Mapping[str, Any], key: str, path: str) -> int | None:
    value = _number(content, key, 0, path)
    return value or None


def _flag(block: Mapping[str, Any], key: str, default: bool) -> bool:
    value = block.get(key)
    return value if isinstance(value, bool) else default


def _device(zero: Mapping[str, Any], key: str, path: str) -> Device:
    block = zero.get(key)
    if key == "offload_optimizer" and block is None and zero.get("cpu_offload") is True:
        return "cpu"
    device = block.get("device", "none") if isinstance(block, dict) else "none"
    if device is None or device == "auto":
        return "none"
    for known in _DEVICES:
        if device == known:
            return known
    msg = f"{path}: {key}.device is {json.dumps(device, default=str)[:60]}; it is none, cpu or nvme"
    raise InputError(msg)


def _precision(content: Mapping[str, Any]) -> Precision:
    """The precision that is switched on; "auto" counts as on for bf16, which today's cards have."""
    for name in ("bf16", "bfloat16", "fp16"):
        block = content.get(name)
        if isinstance(block, dict) and block.get("enabled") is True:
            return "fp16" if name == "fp16" else "bf16"
    bf16 = content.get("bf16")
    return "bf16" if isinstance(bf16, dict) and bf16.get("enabled") == "auto" else "fp32"
