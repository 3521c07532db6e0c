"""A ds_config's content as a plan."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, get_args

from zeroconf.errors import InputError
from zeroconf.inputs import ds_keys
from zeroconf.types import Device, Plan
from zeroconf.units import ranks_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.choices import Optimizer, Precision, Reader

# what to do about an option that says otherwise than the file
CONTRADICTED: Final = "leave the option out, or change the file"

_LARGEST_BATCH = 2**40
_BLOCKS = {
    "zero_optimization": "{'stage': ...}",
    "bf16": "{'enabled': ...}",
    "bfloat16": "{'enabled': ...}",
    "fp16": "{'enabled': ...}",
    "torch_autocast": "{'enabled': ...}",
    "data_types": "{'grad_accum_dtype': ...}",
    "optimizer": "{'type': ..., 'params': {...}}",
    "tensor_parallel": "{'autotp_size': ...}",
}
_PRECISION_BLOCKS = {"bf16", "bfloat16", "fp16", "torch_autocast"}
_MAY_BE_NULL = {"bf16", "offload_optimizer", "offload_param"}
_DEVICES: tuple[Device, ...] = get_args(Device)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """A configuration's JSON content, and what of a plan it says. None: the file leaves it open ("auto", absent).

    ``has_comments``: those of HJSON, which are not among its values.
    """

    path: str
    content: dict[str, Any]
    train_batch_size: int | None
    micro_batch_size: int | None
    gradient_accumulation_steps: int | None
    precision: Precision | None
    optimizer: Optimizer | None
    plan: Plan
    sequence_parallel_size: int = 1
    tensor_parallel_size: int = 1
    has_comments: bool = False
    not_modelled: tuple[str, ...] = ()

    def leaves_precision_open(self, reader: Reader) -> bool:
        """Whether whoever reads the file adds a precision to it.

        Without any block it is fp32 to DeepSpeed, while Accelerate and the Trainer add the block of their own precision
        (accelerate/utils/dataclasses.py: DeepSpeedPlugin.set_mixed_precision).
        """
        return reader != "deepspeed" and not _PRECISION_BLOCKS & self.content.keys()

    @property
    def ranks_per_sample(self) -> int:
        """GPUs that work on the same sequences."""
        return self.sequence_parallel_size * self.tensor_parallel_size

    def data_parallel_size(self, num_gpus: int) -> int:
        """Ranks that each have sequences of their own.

        Raises:
            InputError: the file's parallel sizes do not divide the GPUs.
        """
        if num_gpus % self.ranks_per_sample:
            sizes = {
                "sequence_parallel_size": self.sequence_parallel_size,
                "tensor_parallel.autotp_size": self.tensor_parallel_size,
            }
            said = " x ".join(f"{name} {size}" for name, size in sizes.items() if size > 1)
            msg = f"{self.path}: {said} does not divide {num_gpus} GPUs"
            raise InputError(msg)
        return num_gpus // self.ranks_per_sample

    def batch_split(
        self, data_parallel: int, micro: int | None = None, steps: int | None = None, total: int | None = None
    ) -> tuple[int, int]:
        """(micro batch size, accumulation steps); the options stand in where the file leaves them open.

        An open micro batch is what DeepSpeed makes of the file's train_batch_size, else 1: ``total`` alone gives steps.

        Raises:
            InputError: the file's three numbers contradict each other at this number of GPUs, or an option the file.
        """
        micro = self._agreed(self.micro_batch_size, micro, "--micro-batch-size")
        steps = self._agreed(self.gradient_accumulation_steps, steps, "--gradient-accumulation")
        total = self._agreed(self.train_batch_size, total, "--global-batch-size")
        if total is None:
            return micro or 1, steps or 1
        from_file = self.train_batch_size is not None
        ranks = ranks_name(self.ranks_per_sample)
        if micro is None:
            micro = max(1, total // (data_parallel * (steps or 1))) if from_file or steps else 1
        if steps is None:
            steps = max(1, total // (data_parallel * micro))
        if micro * steps * data_parallel != total:
            product = f"micro batch x accumulation x {ranks} = {micro} x {steps} x {data_parallel}"
            if from_file:
                msg = f"{self.path}: train_batch_size {total} is not {product}; DeepSpeed refuses it"
            else:
                msg = f"--global-batch-size {total} contradicts {self.path}, which has {product}; {CONTRADICTED}"
            raise InputError(msg)
        return micro, steps

    def _agreed(self, from_file: int | None, option: int | None, name: str) -> int | None:
        if from_file is not None and option is not None and from_file != option:
            msg = f"{name} {option} contradicts {self.path}, which says {from_file}; {CONTRADICTED}"
            raise InputError(msg)
        return from_file if from_file is not None else option


def parse_config(content: dict[str, Any], path: str, *, zero_init: bool = True) -> ConfigFile:
    """The plan in a ds_config's content, with DeepSpeed's defaults for what is absent or "auto".

    ``zero_init`` is whether stage 3's model is built partitioned, which no ds_config says.
    """
    for name, example in _BLOCKS.items():
        _check_block(content, name, example, path)
    zero = content.get("zero_optimization", {})
    for name in ("offload_optimizer", "offload_param"):
        _check_block(zero, name, "{'device': ...}", path)
    micro = _count(content, "train_micro_batch_size_per_gpu", path)
    steps = _count(content, "gradient_accumulation_steps", path)
    sequence_parallel = _positive(content, "sequence_parallel_size", 1, path)
    stage = _number(zero, "stage", 0, path)
    if not 0 <= stage <= 3:
        msg = f"{path}: zero_optimization.stage is {stage}; it is 0 to 3"
        raise InputError(msg)
    defaults = Plan(stage=stage, micro_batch_size=micro or 1, gradient_accumulation_steps=steps or 1)
    plan = replace(
        defaults,
        offload_optimizer=_device(zero, "offload_optimizer", path) if stage > 0 else "none",
        offload_param=_device(zero, "offload_param", path) if stage == 3 else "none",
        zero_hpz_partition_size=_positive(zero, "zero_hpz_partition_size", 1, path) if stage == 3 else 1,
        multi_rank_bucket_allreduce=zero.get("use_multi_rank_bucket_allreduce") is not False,
        overlap_comm=_flag(zero, "overlap_comm", stage == 3),
        reduce_bucket_size=_positive(zero, "reduce_bucket_size", defaults.reduce_bucket_size, path),
        prefetch_bucket_size=_stage_3_number(zero, "prefetch_bucket_size", defaults, path),
        param_persistence_threshold=_stage_3_number(zero, "param_persistence_threshold", defaults, path),
        max_live_parameters=_stage_3_number(zero, "max_live_parameters", defaults, path),
        max_reuse_distance=_stage_3_number(zero, "max_reuse_distance", defaults, path),
        sub_group_size=_number(zero, "sub_group_size", defaults.sub_group_size, path) or 1,
        optimizer_variant=ds_keys.optimizer_variant(content),
        fp32_gradients=ds_keys.says_fp32(content, "data_types", "grad_accum_dtype"),
        fp32_communication=ds_keys.communicates_fp32(content, sequence_parallel),
        torch_autocast=ds_keys.enabled(content, "torch_autocast") is True,
        contiguous_gradients=_flag(zero, "contiguous_gradients", True),
        reduce_scatter=_flag(zero, "reduce_scatter", True),
        pin_memory=ds_keys.pins_memory(zero),
        offload_ratio=ds_keys.offload_ratio(zero) if stage == 3 else 1.0,
        nvme_param_buffer_elements=_nvme_number(zero, "offload_param", "buffer_count", 5, path)
        * _nvme_number(zero, "offload_param", "buffer_size", 100_000_000, path),
        nvme_optimizer_buffers=_nvme_number(zero, "offload_optimizer", "buffer_count", 4, path),
        memory_efficient_linear=_flag(zero, "memory_efficient_linear", True),
        zero_init=zero_init,
        quantized_weights=stage == 3 and _flag(zero, "zero_quantized_weights", False),
        quantized_gradients=stage == 3 and _flag(zero, "zero_quantized_gradients", False),
    )
    return ConfigFile(
        path=path,
        content=content,
        train_batch_size=_count(content, "train_batch_size", path),
        micro_batch_size=micro,
        gradient_accumulation_steps=steps,
        precision=ds_keys.precision(content, path),
        optimizer=ds_keys.optimizer(content),
        plan=plan,
        sequence_parallel_size=sequence_parallel,
        # 0 is off
        tensor_parallel_size=_number(content.get("tensor_parallel", {}), "autotp_size", 0, path) or 1,
        not_modelled=tuple(ds_keys.not_modelled(content, zero)),
    )


def _check_block(content: Mapping[str, Any], name: str, example: str, path: str) -> None:
    """Refuses what DeepSpeed's parser refuses: a plain value, and null but for the blocks that may be absent so."""
    value = content.get(name)
    if isinstance(value, dict) or name not in content or (value is None and name in _MAY_BE_NULL):
        return
    msg = f"{path}: {name} is {json.dumps(value, default=str)[:60]}, not an object; write {example}"
    raise InputError(msg)


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
    except OverflowError:
        number = float("inf")
    if not abs(number) <= 10**18:
        return "it is a number from 0 to 1e18"
    # YAML 1.1 reads a bare 5e8 as text, too
    return f"write it without quotes, as {int(number) if number == int(number) else number}"


def _stage_3_number(zero: Mapping[str, Any], key: str, defaults: Plan, path: str) -> int:
    """Stage 3's keys are legal with and without their prefix."""
    default: int = getattr(defaults, key)
    return _number(zero, key, _number(zero, f"stage3_{key}", default, path), path)


def _nvme_number(zero: Mapping[str, Any], block: str, key: str, default: int, path: str) -> int:
    inner = zero.get(block)
    return _number(inner, key, default, path) if isinstance(inner, dict) else default


def _positive(block: Mapping[str, Any], key: str, default: int, path: str) -> int:
    value = _number(block, key, default, path)
    if value == 0:
        msg = f"{path}: {key} is 0; DeepSpeed wants 1 or more"
        raise InputError(msg)
    return value


def _count(content: Mapping[str, Any], key: str, path: str) -> int | None:
    """A batch size: None when the file leaves it open."""
    value = _positive(content, key, -1, path)
    if value > _LARGEST_BATCH:
        msg = f"{path}: {key} is {value}; a batch has at most {_LARGEST_BATCH} sequences"
        raise InputError(msg)
    return None if value < 0 else value


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
