"""What the engine makes of several keys together; None where the file leaves it to its reader, or holds nonsense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from zeroconf.rules.facts import AUTO

if TYPE_CHECKING:
    from zeroconf.rules.facts import DsConfig, Reader

Precision = Literal["fp32", "fp16", "bf16"]

# runtime/config.py: DtypeEnum
_DTYPE_NAMES: dict[str, Precision] = {
    **dict.fromkeys(("fp32", "float32", "float", "torch.float32"), "fp32"),
    **dict.fromkeys(("fp16", "float16", "half", "torch.float16"), "fp16"),
    **dict.fromkeys(("bf16", "bfloat16", "torch.bfloat16"), "bf16"),
}
_BEYOND_64_BITS = 2**63
_OWN_OPTIMIZERS = {"adagrad", "adam", "adamw", "lamb", "muadam", "muadamw", "musgd", "lion", "muon"}


def number(config: DsConfig, *steps: str) -> float | None:
    """The number at the path; None for anything else, and beyond 64 bits, where no arithmetic says anything."""
    value = config.number(*steps)
    return value if value is not None and abs(value) < _BEYOND_64_BITS else None


def whole(config: DsConfig, *steps: str) -> int | None:
    """The number at the path as an integer, also 8.0; None for anything else."""
    value = number(config, *steps)
    return int(value) if isinstance(value, int) or (value is not None and value.is_integer()) else None


def count(config: DsConfig, *steps: str) -> int | None:
    """As ``whole``, and true as the 1 that arithmetic makes of it."""
    value = config.get(*steps)
    return int(value) if isinstance(value, bool) else whole(config, *steps)


def is_off(config: DsConfig, *steps: str) -> bool:
    """Whether the path holds false: what is missing, null or "auto" does not."""
    value = config.get(*steps)
    if isinstance(value, str):
        return value.lower() in {"false", "f", "no", "n", "off", "0"}
    return value is False or (isinstance(value, (int, float)) and value == 0)


def offload_device(config: DsConfig, name: Literal["offload_optimizer", "offload_param"]) -> str:
    """Where an offload block sends its states: "cpu", "nvme", or "none" for anything that DeepSpeed does not take."""
    device = config.offload(name)
    return device if device in {"cpu", "nvme"} else "none"


def optimizer_type(config: DsConfig) -> str | None:
    """The optimizer named, DeepSpeed's own ones in lower case as the parser writes them."""
    name = config.get("optimizer", "type")
    if not isinstance(name, str) or name == AUTO:
        return None
    return name.lower() if name.lower() in _OWN_OPTIMIZERS else name


def builds_cpu_adam(config: DsConfig) -> bool:
    """Whether an offloaded optimizer of the file becomes DeepSpeedCPUAdam."""
    return optimizer_type(config) in {"adam", "adamw"} and not config.is_on("optimizer", "params", "torch_adam")


def bf16_block(config: DsConfig) -> str:
    """The block that decides on bf16: "bfloat16" only where there is no "bf16"."""
    return "bf16" if config.get("bf16") is not None or not config.has("bfloat16") else "bfloat16"


def precision(config: DsConfig, reader: Reader) -> Precision | None:
    """The parameters' dtype; None when Accelerate or the Trainer decides it, or may, and when both blocks are on."""
    name = bf16_block(config)
    fp16, bf16 = config.enabled("fp16"), config.enabled(name)
    if fp16 is None or bf16 is None or (fp16 and bf16):
        return None
    if fp16 or bf16:
        return "fp16" if fp16 else "bf16"
    # Accelerate adds the block that its own mixed_precision names when the file has none
    left_open = reader.name != "deepspeed" and not (config.has("fp16") and config.has("bf16"))
    return None if left_open else "fp32"


def is_for_inference(config: DsConfig) -> bool:
    """Whether a stage 3 file trains nothing (ZeRO-Inference), or is only part of a configuration.

    It names no optimizer, scheduler, clipping or accumulation, and either offloads the parameters without the
    optimizer states, which are larger, or has no batch size.
    """
    trains = ("optimizer", "scheduler", "gradient_clipping", "gradient_accumulation_steps")
    if config.stage != 3 or any(config.has(key) for key in trains):
        return False
    states_stay = config.zero("offload_optimizer") is None and not config.zero("cpu_offload")
    batch = ("train_batch_size", "train_micro_batch_size_per_gpu")
    return (offload_device(config, "offload_param") != "none" and states_stay) or not any(map(config.has, batch))


def dtype(config: DsConfig, *steps: str) -> Precision | None:
    """The dtype that a value names, by any of its names."""
    value: Any = config.get(*steps)
    return _DTYPE_NAMES.get(value) if isinstance(value, str) else None


def is_dedicated_bf16_optimizer(config: DsConfig, reader: Reader) -> bool:
    """Whether stage 1 runs BF16_Optimizer, which reads few of zero_optimization's keys."""
    return (
        config.stage == 1
        and precision(config, reader) == "bf16"
        and dtype(config, "data_types", "grad_accum_dtype") == "fp32"
        and offload_device(config, "offload_optimizer") != "cpu"
    )


def world_size(config: DsConfig) -> int | None:
    """The number of data-parallel ranks that the batch sizes imply, where all three are given."""
    train, micro, steps = (
        count(config, name)
        for name in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    )
    if train is None or micro is None or steps is None or min(train, micro, steps) < 1:
        return None
    return train // (micro * steps) if train % (micro * steps) == 0 else None
