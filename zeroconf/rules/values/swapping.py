"""ZC236-ZC239, ZC241, ZC244: NVMe, partial offload and sub-groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from zeroconf.document import edits
from zeroconf.rules.idle import uses_aio
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import builds_cpu_adam, number, offload_device, optimizer_type, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig

_BLOCKS: tuple[Literal["offload_optimizer", "offload_param"], ...] = ("offload_optimizer", "offload_param")
_NVME_KEYS = {
    "offload_optimizer": ("nvme_path", "buffer_count", "pipeline_read", "pipeline_write", "fast_init"),
    "offload_param": ("nvme_path", "buffer_count", "buffer_size", "max_in_cpu"),
}
# parameter, momentum, variance, gradient
_ADAM_BUFFERS = 4
_ALL_IN_ONE = 10**11


@rule("ZC236", "nvme-below-stage-3", severity="error")
def nvme_below_stage_3(config: DsConfig) -> Iterator[Problem]:
    """Below stage 3 an optimizer offloaded to NVMe stays in the host's memory.

    Stages 1 and 2 ask only whether the device is "none" (runtime/zero/stage_1_and_2.py, DeepSpeedZeroOptimizer): every
    other one means CPU memory, and nvme_path is never touched. With 16 bytes and more per parameter that is what the
    disk was to spare.

    Example:
        ```json
        {"train_batch_size": 8,
         "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8,
         "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}}}
        ```
    """
    if config.stage in {1, 2} and offload_device(config, "offload_optimizer") == "nvme":
        yield Problem(
            f"at stage {config.stage} device nvme means CPU memory: stage 3 alone writes to the disk",
            config.path("zero_optimization", "offload_optimizer", "device"),
        )


@rule("ZC237", "nvme-without-path", severity="error")
def nvme_without_path(config: DsConfig) -> Iterator[Problem]:
    """Offload to NVMe does not say where.

    DeepSpeed stops: "expected str, bytes or os.PathLike object, not NoneType" for the optimizer
    (runtime/zero/stage3.py, _configure_tensor_swapping), `"nvme_path" in DeepSpeed Config cannot be None` for the
    parameters (runtime/zero/partition_parameters.py). "none" is a folder of that name in the working directory
    (huggingface/accelerate#1463).

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8,
         "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme"}}}
        ```
    """
    for block in _BLOCKS:
        if config.stage != 3 or offload_device(config, block) != "nvme":
            continue
        path, folder = config.path("zero_optimization", block, "nvme_path"), config.zero(block, "nvme_path")
        if folder is None:
            yield Problem(f"{block} to nvme needs nvme_path, a folder on a local disk", path)
        elif folder == "none":
            yield Problem(f'{block} would swap to "./none"; name a folder on a local disk', path, severity="warning")


@rule("ZC238", "partial-offload", severity="error")
def partial_offload(config: DsConfig) -> Iterator[Problem]:
    """A ratio below 1 stands where it cannot work.

    "Partial offloading only supported for ZeRO Stage 3" (runtime/zero/config.py, offload_ratio_check), and there for
    DeepSpeedCPUAdam only ("Hybrid Optimizer Only Supports DeepSpeedCPUAdam", runtime/zero/stage3.py). Without a device
    nothing is offloaded at any ratio.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}
        ```
    """
    ratio = number(config, "zero_optimization", "offload_optimizer", "ratio")
    if ratio is None or not 0 <= ratio < 1 or config.stage is None:
        return
    path = config.path("zero_optimization", "offload_optimizer", "ratio")
    if config.stage < 3:
        yield Problem(f"ratio {ratio:g} needs stage 3; DeepSpeed refuses it at stage {config.stage}", path)
    elif offload_device(config, "offload_optimizer") == "none":
        yield Problem(f"ratio {ratio:g} has no effect without a device", path, severity="warning")
    elif optimizer_type(config) is not None and not builds_cpu_adam(config):
        yield Problem(f"ratio {ratio:g} works with Adam and AdamW without torch_adam only", path)


@rule("ZC239", "nvme-settings-without-nvme", severity="info")
def nvme_settings_without_nvme(config: DsConfig) -> Iterator[Problem]:
    """Settings for NVMe have no effect without NVMe.

    buffer_count, pipeline_read, pipeline_write, fast_init, buffer_size, max_in_cpu and nvme_path belong to the swappers
    (runtime/swap_tensor/, runtime/zero/stage3.py), and so does the aio block. With device "cpu" nothing reads them.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
         "pipeline_read": true, "buffer_count": 8}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}
        ```
    """
    if config.stage != 3:
        return
    for block in _BLOCKS:
        device = offload_device(config, block)
        idle = [key for key in _NVME_KEYS[block] if config.zero(block, key) not in (None, False)]
        if device != "nvme" and idle:
            yield Problem(
                f"{', '.join(idle)} of {block} {'do' if len(idle) > 1 else 'does'} nothing with device {device}",
                config.path("zero_optimization", block, idle[0]),
                on_key=True,
            )
    if config.get("aio") and not uses_aio(config):
        yield Problem("aio does nothing: no offload goes to nvme", config.path("aio"), on_key=True)


@rule("ZC241", "few-swap-buffers", severity="warning", confidence="medium")
def few_swap_buffers(config: DsConfig) -> Iterator[Problem]:
    """buffer_count is too small for Adam's states.

    Swapping in a sub-group takes a buffer each for parameter, momentum, variance and gradient, and stops without them
    (runtime/swap_tensor/partitioned_optimizer_swapper.py, swap_in_optimizer_state). pipeline_read fetches the next
    sub-group meanwhile: "PipelinedOptimizerSwapper ran out of swap buffers, try increasing 'buffer_count'" as soon as
    there are two.

    Example:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.0001}}, "zero_optimization": {
         "stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme", "buffer_count": 3}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.0001}}, "zero_optimization": {
         "stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme", "buffer_count": 4}}}
        ```
    """
    block = ("zero_optimization", "offload_optimizer")
    if config.stage != 3 or offload_device(config, "offload_optimizer") != "nvme":
        return
    if optimizer_type(config) not in {None, "adam", "adamw"}:
        return
    count = whole(config, *block, "buffer_count") if config.has(*block, "buffer_count") else 4
    is_piped = config.is_on(*block, "pipeline_read")
    needed = _ADAM_BUFFERS * (2 if is_piped else 1)
    if count is None or not 0 <= count < needed:
        return
    path = config.path(*block, "buffer_count")
    meanwhile = ", twice as pipeline_read fetches the next sub-group meanwhile" if is_piped else ""
    fix = edits.replace if config.has(*block, "buffer_count") else edits.insert
    yield Problem(
        f"Adam swaps in parameter, momentum, variance and gradient{meanwhile}: buffer_count {count} is below {needed}",
        path,
        fix=cure(f"Write {needed}", fix(config.document, path, needed), safe=False),
    )


@rule("ZC244", "one-sub-group", severity="warning", confidence="medium")
def one_sub_group(config: DsConfig) -> Iterator[Problem]:
    """The whole shard is one sub-group.

    sub_group_size is the number of parameters that the optimizer of stage 3 steps at once, 1e9 by default
    (runtime/zero/config.py). Swapping needs buffers as large as the largest sub-group
    (runtime/zero/stage3.py, _configure_tensor_swapping: largest_numel), 4 bytes for each of its elements and each of
    buffer_count, so one of 1e12 asks for the whole shard in memory several times. Without offload, 1e12 is harmless.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "sub_group_size": 1000000000000,
         "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "sub_group_size": 1000000000,
         "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}}}
        ```
    """
    size, device = whole(config, "zero_optimization", "sub_group_size"), offload_device(config, "offload_optimizer")
    if config.stage != 3 or size is None or size < _ALL_IN_ONE or device == "none":
        return
    path = config.path("zero_optimization", "sub_group_size")
    does = "every swap buffer is as large as the shard" if device == "nvme" else "the host steps the shard as a whole"
    yield Problem(
        f"sub_group_size {size:.0e} puts all parameters into one group: {does}; 1e9 is the default",
        path,
        fix=cure("Write 1000000000", edits.replace(config.document, path, 1_000_000_000), safe=False),
        severity=None if device == "nvme" else "info",
    )
