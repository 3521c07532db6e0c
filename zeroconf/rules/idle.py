"""Values that nothing computes with: in a block that is off, of a feature not used, or set over before that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.keys import key_table

if TYPE_CHECKING:
    from zeroconf.document.node import Path
    from zeroconf.keys import Block
    from zeroconf.rules.facts import DsConfig, Reader


def idle(config: DsConfig, block: Block, path: Path) -> str:
    """Why nothing computes with the value at ``path``, a key of ``block``, as a clause; empty where something does."""
    steps = tuple(map(str, path[len(config.prefix) :]))
    if block.path == "aio":
        return "" if uses_aio(config) else "no offload goes to nvme"
    if steps == ("allgather_size",):
        # runtime/zero/config.py, read_zero_config_deprecated
        return "" if config.get("zero_optimization") is True else "zero_optimization is not the old true"
    if steps == ("data_parallel_size",):
        # __init__.py, initialize
        return "" if config.has("sequence_parallel_size") else "there is no sequence_parallel_size"
    if steps == ("activation_checkpointing", "number_checkpoints"):
        # runtime/activation_checkpointing/checkpointing.py, partition_activations
        is_used = config.is_on("activation_checkpointing", "contiguous_memory_optimization")
        return "" if is_used else "contiguous_memory_optimization is off"
    return _switched_off(config, steps)


def is_set_over(config: DsConfig, reader: Reader, path: Path) -> bool:
    """Whether Accelerate, through which the Trainer goes too, puts its own value there whatever the file says.

    steps_per_print becomes infinite in every plugin (accelerate/utils/dataclasses.py, DeepSpeedPlugin.__post_init__),
    zero_allow_untested_optimizer true where the script brings the optimizer (accelerator.py, _prepare_deepspeed).
    """
    match path[len(config.prefix) :]:
        case ("steps_per_print",):
            return reader.fills_auto
        case ("zero_allow_untested_optimizer",):
            return reader.fills_auto and not config.has("optimizer")
        case _:
            return False


def may_be_set_over(config: DsConfig, reader: Reader, path: Path) -> bool:
    """Whether Accelerate would, where nobody said who reads the file."""
    return reader.name is None and is_set_over(config, reader._replace(name="accelerate"), path)


def uses_aio(config: DsConfig) -> bool:
    """Whether something reads or writes files by aio: runtime/swap_tensor/, model_checkpointing/writer_factory.py."""
    if str(config.get("checkpoint", "writer", "type")).lower() == "fast":
        return True
    devices = (config.offload("offload_optimizer"), config.offload("offload_param"))
    return config.stage in {3, None} and "nvme" in devices


def _switched_off(config: DsConfig, steps: tuple[str, ...]) -> str:
    """The outermost block around a key that has a switch, and has it off."""
    blocks = key_table("deepspeed").blocks
    for end in range(1, len(steps)):
        block = blocks.get(".".join(steps[:end]))
        if block is None or "enabled" not in block.keys or steps[end:] == ("enabled",):
            continue
        # autotuning runs the profiler by itself (runtime/engine.py, flops_profiler_enabled)
        is_started = block.path == "flops_profiler" and config.is_on("autotuning", "enabled")
        if not is_started and not config.is_on(*steps[:end], "enabled"):
            return f"{block.path} is off"
    return ""
