"""What a ds_config's blocks say about precision, the optimizer and its offload, as DeepSpeed reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, get_args

from zeroconf.choices import Optimizer, Precision
from zeroconf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zeroconf.types import OptimizerVariant, Plan

_ONLY_CONFIGURED: Final[tuple[OptimizerVariant, ...]] = ("adafactor", "muon")
_FP32_NAMES: Final = {"fp32", "float32", "float"}


def enabled(content: Mapping[str, Any], name: str) -> object:
    """What a block says of itself, False without one."""
    block = content.get(name)
    return block.get("enabled", False) if isinstance(block, dict) else False


def precision(content: Mapping[str, Any], path: str) -> Precision | None:
    """The precision that is switched on; None when an "auto" leaves it to the Trainer."""
    bf16 = enabled(content, "bf16") is True or enabled(content, "bfloat16") is True
    fp16 = enabled(content, "fp16") is True
    if bf16 and fp16:
        msg = f"{path}: bf16 and fp16 are both enabled; DeepSpeed takes one"
        raise InputError(msg)
    if bf16 or fp16:
        return "bf16" if bf16 else "fp16"
    return None if "auto" in (enabled(content, "bf16"), enabled(content, "fp16")) else "fp32"


def optimizer(content: Mapping[str, Any]) -> Optimizer | None:
    """The optimizer that the file names, None for the script's own or one without a formula."""
    block = content.get("optimizer")
    named = str(block.get("type", "")).lower() if isinstance(block, dict) else ""
    return next((known for known in get_args(Optimizer) if known == named), None)


def optimizer_variant(content: Mapping[str, Any]) -> OptimizerVariant | None:
    """The optimizer where it is not one of a workload's as DeepSpeed builds them.

    engine.py, _configure_basic_optimizer: ``torch_adam`` takes PyTorch's AdamW, on a GPU its ``foreach`` form unless a
    parameter says otherwise.
    """
    block = content.get("optimizer")
    if not isinstance(block, dict):
        return None
    kind, given = str(block.get("type", "")).lower(), block.get("params")
    params = given if isinstance(given, dict) else {}
    if kind in ("adam", "adamw") and params.get("torch_adam") is True:
        if params.get("fused") is True:
            return "torch-adamw-fused"
        return "torch-adamw-loop" if params.get("foreach") is False else "torch-adamw"
    if kind == "sgd" and params.get("momentum"):
        return "sgd-momentum"
    return next((known for known in _ONLY_CONFIGURED if known == kind), None)


def script_variant(optimizer: Optimizer, *, offloaded: bool) -> OptimizerVariant | None:
    """The optimizer of a script, where the configuration has none.

    AdamW is PyTorch's in its fused form, the Trainer's default (transformers/training_args.py: adamw_torch_fused); with
    offload DeepSpeedCPUAdam takes its place.
    """
    return "torch-adamw-fused" if optimizer == "adamw" and not offloaded else None


def by_script(plan: Plan, content: Mapping[str, Any], optimizer: Optimizer) -> Plan:
    """The plan with the script's optimizer where the file has no block of its own."""
    if isinstance(content.get("optimizer"), dict):
        return plan
    return replace(plan, optimizer_variant=script_variant(optimizer, offloaded=plan.offload != "none"))


def says_fp32(content: Mapping[str, Any], *keys: str) -> bool:
    """Whether the value at the end of ``keys`` is a name of fp32."""
    value: object = content
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return isinstance(value, str) and value.lower() in _FP32_NAMES


def communicates_fp32(content: Mapping[str, Any], sequence_parallel_size: int) -> bool:
    """Whether gradients are sent in fp32 whatever they are: asked for, or the default of sequence parallelism.

    runtime/engine.py, _configure_distributed_model: ``seq_parallel_communication_data_type`` then takes the place of
    ``communication_data_type``.
    """
    key = "communication_data_type" if sequence_parallel_size == 1 else "seq_parallel_communication_data_type"
    if sequence_parallel_size > 1 and content.get(key) is None:
        return True
    return says_fp32(content, key)


def pins_memory(zero: Mapping[str, Any]) -> bool | None:
    """Whether offload of the optimizer pins host memory; None leaves it to the release. True without offload."""
    block = zero.get("offload_optimizer")
    if not isinstance(block, dict):
        return None if zero.get("cpu_offload") is True else True
    said = block.get("pin_memory")
    return said if isinstance(said, bool) else None


def offload_ratio(zero: Mapping[str, Any]) -> float:
    """The share of stage 3's optimizer that is offloaded, 1 where the value is none."""
    block = zero.get("offload_optimizer")
    ratio = block.get("ratio", 1.0) if isinstance(block, dict) else 1.0
    return float(ratio) if isinstance(ratio, (int, float)) and 0 <= ratio <= 1 else 1.0


def not_modelled(content: Mapping[str, Any], zero: Mapping[str, Any]) -> Iterator[str]:
    """Keys of the file that change memory or traffic and have no formula yet."""
    block = content.get("optimizer")
    if isinstance(block, dict) and optimizer(content) is None and optimizer_variant(content) is None:
        yield f"optimizer {str(block.get('type'))[:40]} (adamw is assumed)"
    if optimizer_variant(content) == "muon" and zero.get("stage") == 3:
        yield "optimizer Muon at stage 3 (its momentum alone is counted)"
    # before there was deepcompile, the switch of "compile" was "enabled", too
    for name, switches in (("compile", ("deepcompile", "enabled")), ("hybrid_engine", ("enabled",))):
        block = content.get(name)
        if isinstance(block, dict) and any(block.get(switch) not in (None, False) for switch in switches):
            yield name
    if zero.get("zenflow"):
        yield "zero_optimization.zenflow"
    # partition_parameters.py: _partition_param keeps frozen shards in int8
    if zero.get("zero_quantized_nontrainable_weights") is True and zero.get("stage") == 3:
        yield "zero_optimization.zero_quantized_nontrainable_weights (frozen weights in 8 bits)"
