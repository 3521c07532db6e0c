"""ZC271 to ZC278: stage, offload and saving as an Accelerate YAML gives them inline, without a ds_config.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document.edits import Fix, replace
from zeroconf.rules.accelerate.reading import (
    DEFAULT_STAGE,
    OFFLOADS,
    config_file,
    inline_device,
    inline_stage,
    uses_deepspeed,
)
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import AccelerateConfig

_TRUE_WORDS = {"y", "yes", "t", "true", "on", "1"}


@rule("ZC271", "accelerate-nvme-path-lost", severity="error")
def accelerate_nvme_path_lost(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """Offload to NVMe through the YAML's own fields swaps into a folder named "none".

    `accelerate launch` exports the devices but neither `offload_optimizer_nvme_path` nor `offload_param_nvme_path`
    (accelerate/utils/launch.py, prepare_deepspeed_cmd_env, in every release up to 1.15.0; accelerate#1463): the
    training script finds none and takes the text "none" for the path, a folder below the one it was started in.
    Below stage 3 DeepSpeed takes any device of the optimizer for cpu (runtime/zero/stage_1_and_2.py). A ds_config.json
    named by `deepspeed_config_file` carries the path.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 3
          offload_param_device: nvme
          offload_param_nvme_path: /local_nvme
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          deepspeed_config_file: ds_config.json
          zero3_init_flag: true
        ```
    """
    if not uses_deepspeed(accelerate) or config_file(accelerate) is not None:
        return
    stage = inline_stage(accelerate)
    for offload in OFFLOADS:
        if inline_device(accelerate, offload) != "nvme":
            continue
        path = accelerate.path("deepspeed_config", f"{offload}_device")
        if stage in {0, 1, 2}:
            if offload == "offload_optimizer" and stage:
                yield Problem(f"at stage {stage} the optimizer goes to host memory: NVMe needs stage 3", path)
            continue  # ZC272 names the others
        message = (
            f"accelerate launch does not export {offload}_nvme_path: it would swap into ./none; "
            "give the path in a ds_config.json that deepspeed_config_file names"
        )
        yield Problem(message, path)


@rule("ZC272", "accelerate-offload-below-stage", severity="error")
def accelerate_offload_below_stage(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """A device is named to offload to, at a stage that does not offload there.

    DeepSpeed moves parameters to the host only at stage 3, the optimizer only from stage 1 on (runtime/engine.py,
    _configure_zero_optimizer): below, the device is taken without a word and everything stays on the GPU. Without
    `zero_stage` Accelerate takes stage 2.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 2
          offload_param_device: cpu
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 3
          offload_param_device: cpu
        ```
    """
    stage = inline_stage(accelerate)
    if not uses_deepspeed(accelerate) or stage is None:
        return
    for offload, least in zip(OFFLOADS, (1, 3), strict=True):
        device = inline_device(accelerate, offload)
        if device not in {"cpu", "nvme"} or stage >= least:
            continue
        path = accelerate.path("deepspeed_config", f"{offload}_device")
        fix = Fix("Write none", replace(accelerate.document, path, "none"), safe=False)
        what = "parameters" if offload == "offload_param" else "the optimizer"
        message = (
            f"{offload}_device: {device} has no effect at stage {stage}: DeepSpeed offloads {what} from stage {least}"
        )
        yield Problem(message, path, fix=fix)


@rule("ZC275", "zero3-init-below-stage-3", severity="warning")
def zero3_init_below_stage_3(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """zero3_init_flag is on at a stage that cannot partition the model as it is built.

    "DeepSpeed Zero3 Init flag is only applicable for ZeRO Stage 3. Setting it to False."
    (accelerate/utils/dataclasses.py, DeepSpeedPlugin.__post_init__; accelerate#2079): every process then builds the
    whole model.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 2
          zero3_init_flag: true
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 2
          zero3_init_flag: false
        ```
    """
    stage = inline_stage(accelerate)
    is_on = str(accelerate.deepspeed("zero3_init_flag")).lower() in _TRUE_WORDS
    if is_on and stage is not None and stage < 3 and uses_deepspeed(accelerate):
        path = accelerate.path("deepspeed_config", "zero3_init_flag")
        fix = Fix("Write false", replace(accelerate.document, path, False))
        yield Problem(f"zero3_init_flag has no effect at stage {stage}: Accelerate sets it to false", path, fix=fix)


@rule("ZC276", "zero3-saves-no-weights", severity="warning")
def zero3_saves_no_weights(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """Stage 3 without zero3_save_16bit_model saves shards, and no weights file.

    The 16-bit weights are gathered on saving only when asked for (accelerate/utils/dataclasses.py,
    DeepSpeedPlugin: stage3_gather_16bit_weights_on_model_save; LLaMA-Factory#253, accelerate#883). Without, a
    checkpoint has to go through DeepSpeed's `zero_to_fp32.py` first, which is a fair choice for very large models:
    say so with `zero3_save_16bit_model: false` and a suppression.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 3
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
    save = str(accelerate.deepspeed("zero3_save_16bit_model", default=False)).lower()
    if uses_deepspeed(accelerate) and inline_stage(accelerate) == 3 and save in {"false", "no", "n", "f", "off", "0"}:
        message = "stage 3 saves no weights file: zero3_save_16bit_model is not true, so a checkpoint holds shards only"
        yield Problem(message, accelerate.path("deepspeed_config", "zero3_save_16bit_model"))


@rule("ZC278", "accelerate-stage-unsaid", severity="info")
def accelerate_stage_unsaid(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """Without zero_stage and a config file Accelerate trains at stage 2.

    The default stands in accelerate/utils/dataclasses.py (DeepSpeedPlugin.__post_init__). Written down, it shows.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          gradient_clipping: 1.0
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 2
          gradient_clipping: 1.0
        ```
    """
    is_inline = uses_deepspeed(accelerate) and config_file(accelerate) is None
    if is_inline and accelerate.deepspeed("zero_stage") is None:
        message = f"zero_stage is not set: Accelerate takes stage {DEFAULT_STAGE}"
        yield Problem(message, accelerate.path("deepspeed_config", "zero_stage"))
