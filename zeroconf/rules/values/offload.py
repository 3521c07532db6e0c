"""ZC235, ZC240, ZC242-ZC247: states and parameters on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from zeroconf.document import edits
from zeroconf.keys import PINS_BY_DEFAULT_SINCE
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import is_off, offload_device, optimizer_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.keys import Releases
    from zeroconf.rules.facts import DsConfig, Reader

_BLOCKS: tuple[Literal["offload_optimizer", "offload_param"], ...] = ("offload_optimizer", "offload_param")
_HAVE_A_CPU_VERSION = {"adam", "adamw", "adagrad", "lion", "muon", "muadam", "muadamw"}


@rule("ZC235", "offload-without-zero", severity="error")
def offload_without_zero(config: DsConfig) -> Iterator[Problem]:
    """offload_optimizer at stage 0 offloads nothing.

    Only ZeRO moves states to the host (runtime/engine.py, _configure_zero_optimizer). What remains is the choice of the
    optimizer: AdamW becomes DeepSpeedCPUAdam, which stops on a GPU ("CPUAdam param is on cuda"; ops/adam/cpu_adam.py),
    and an optimizer of the script is refused as at the other stages.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu"}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}}
        ```
    """
    device = offload_device(config, "offload_optimizer")
    if config.stage == 0 and device != "none":
        yield Problem(
            f"offload_optimizer to {device} needs stage 1, 2 or 3; at stage 0 nothing is offloaded",
            config.path("zero_optimization", "offload_optimizer"),
            on_key=True,
        )


@rule("ZC240", "offload-param-below-stage-3", severity="error")
def offload_param_below_stage_3(config: DsConfig) -> Iterator[Problem]:
    """offload_param below stage 3 has no effect.

    DeepSpeed moves parameters to the host only at stage 3 (runtime/engine.py, _configure_zero_optimizer); at the
    other stages the block is parsed and ignored, and the parameters stay on the GPU.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
        ```
    """
    device = offload_device(config, "offload_param")
    if config.stage is not None and config.stage < 3 and device != "none":
        path = config.path("zero_optimization", "offload_param")
        yield Problem(
            f"offload_param to {device} has no effect at stage {config.stage}: only stage 3 offloads parameters",
            path,
            on_key=True,
            fix=cure("Remove offload_param", edits.remove(config.document, path), safe=False),
        )


@rule("ZC242", "slow-optimizer-on-the-host", severity="warning")
def slow_optimizer_on_the_host(config: DsConfig) -> Iterator[Problem]:
    """The offloaded optimizer is not one of DeepSpeed's CPU optimizers.

    An offloaded optimizer steps on the CPU, where DeepSpeedCPUAdam is 5 to 7 times as fast as torch's Adam
    (ops/adam/cpu_adam.py); torch_adam bypasses it without a word (seen in DeepSpeed#2992). Adagrad and Lion have CPU
    versions too; the others run as they are, and Lamb's kernel exists for GPUs only.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
         "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": true}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
         "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
        ```
    """
    name = optimizer_type(config)
    if not config.stage or name is None or offload_device(config, "offload_optimizer") == "none":
        return
    path = config.path("optimizer", "params", "torch_adam")
    if name in {"adam", "adamw"} and config.is_on("optimizer", "params", "torch_adam"):
        yield Problem(
            "torch_adam steps the offloaded optimizer with torch's Adam; DeepSpeedCPUAdam is 5 to 7 times as fast",
            path,
            on_key=True,
            fix=cure("Remove torch_adam", edits.remove(config.document, path), safe=False),
        )
    elif name == "lamb":
        yield Problem(
            "Lamb has no CPU version: its kernel cannot step an offloaded optimizer", config.path("optimizer", "type")
        )
    elif name not in _HAVE_A_CPU_VERSION:
        yield Problem(
            f"{name} has no CPU version in DeepSpeed: torch's steps on the host",
            config.path("optimizer", "type"),
            severity="info",
        )


@rule("ZC243", "offload-of-the-scripts-optimizer", severity="warning", confidence="medium")
def offload_of_the_scripts_optimizer(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """The file offloads an optimizer that it does not name.

    DeepSpeed refuses an optimizer of the script other than DeepSpeedCPUAdam or DeepSpeedCPULion, unless
    zero_force_ds_cpu_optimizer is false (runtime/engine.py, _configure_optimizer; DeepSpeed#2971). Accelerate, and the
    Trainer through it, put DeepSpeedCPUAdam in the place of any but Adagrad and bitsandbytes' 32-bit Lion: right for
    Adam and AdamW, whose groups keep betas and eps, another optimizer for SGD or Adafactor
    (accelerate/utils/deepspeed.py, map_pytorch_optim_to_deepspeed; huggingface/accelerate#2169).

    Example:
        ```json for=deepspeed
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
        ```

    Use instead:
        ```json for=deepspeed
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
         "optimizer": {"type": "AdamW", "params": {"lr": 0.0001}}}
        ```
    """
    if not config.stage or offload_device(config, "offload_optimizer") == "none" or config.has("optimizer"):
        return
    if is_off(config, "zero_force_ds_cpu_optimizer"):
        does = "the script's optimizer steps on the host as it is; DeepSpeedCPUAdam is 5 to 7 times as fast"
    elif reader.fills_auto:
        does = "Accelerate puts DeepSpeedCPUAdam in the place of the script's optimizer, also of one that is no Adam"
    else:
        does = (
            "DeepSpeed takes no other optimizer of the script than DeepSpeedCPUAdam or DeepSpeedCPULion; name one here,"
            " or set zero_force_ds_cpu_optimizer to false"
        )
    is_refused = reader.stated and reader.name == "deepspeed" and not is_off(config, "zero_force_ds_cpu_optimizer")
    yield Problem(
        does,
        config.path("zero_optimization", "offload_optimizer"),
        on_key=True,
        severity=None if is_refused else "info",
    )


@rule("ZC245", "super-offload", severity="error")
def super_offload(config: DsConfig) -> Iterator[Problem]:
    """super_offload stands where it cannot work.

    Stage 3 alone has it (runtime/engine.py, _configure_zero_optimizer), for an Adam that is offloaded to the CPU:
    runtime/superoffload/superoffload_stage3.py reads lr, betas, eps, weight_decay and amsgrad of each group. At the
    other stages the key is ignored, and so is cpuadam_cores_perc without it.

    Example:
        ```json
        {"train_batch_size": 8,
         "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "super_offload": true}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8,
         "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "super_offload": true}}}
        ```
    """
    block = ("zero_optimization", "offload_optimizer")
    path = config.path(*block, "super_offload")
    if not config.is_on(*block, "super_offload"):
        if config.has(*block, "cpuadam_cores_perc"):
            yield Problem(
                "cpuadam_cores_perc has no effect without super_offload",
                config.path(*block, "cpuadam_cores_perc"),
                on_key=True,
                severity="info",
            )
        return
    name, device = optimizer_type(config), offload_device(config, "offload_optimizer")
    if config.stage is not None and config.stage < 3:
        yield Problem(f"super_offload has no effect at stage {config.stage}: stage 3 alone has it", path, on_key=True)
    elif device != "cpu":
        yield Problem(f"super_offload is for device cpu, not {device}", path, on_key=True, severity="warning")
    elif name not in {None, "adam", "adamw"}:
        yield Problem(f"super_offload steps Adam only, not {name}", path, on_key=True)


@rule("ZC247", "unpinned-offload", severity="info")
def unpinned_offload(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """Offloaded states lie in pageable memory.

    Copies between GPU and host are asynchronous and at full bandwidth from pinned memory only
    (runtime/zero/offload_config.py). It is the default since 0.19.5 (DeepSpeed#8207); switch it off where host memory
    or `ulimit -l` is tight.

    Example:
        ```json
        {"train_batch_size": 8,
         "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": false}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8,
         "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": true}}}
        ```
    """
    for block in _BLOCKS:
        steps = ("zero_optimization", block, "pin_memory")
        is_read = config.stage == 3 or (block == "offload_optimizer" and config.stage in {1, 2})
        if not is_read or offload_device(config, block) != "cpu" or not config.has("zero_optimization", block):
            continue
        if not config.has(*steps) and releases.deepspeed < PINS_BY_DEFAULT_SINCE:
            yield Problem(
                f"{block} is not pinned before 0.19.5 unless pin_memory says so; copies wait for each other",
                config.path(*steps),
                fix=cure("Add pin_memory", edits.insert(config.document, config.path(*steps), value=True), safe=False),
            )
        elif is_off(config, *steps):
            yield Problem(
                f"pin_memory false makes {block}'s copies slower and synchronous; it saves only what pinned blocks are"
                " rounded up, to powers of two",
                config.path(*steps),
            )
