"""ZC270 to ZC279: values of an Accelerate YAML that contradict each other, or do something else than they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document.edits import Fix, remove, replace
from zeroconf.rules.accelerate.reading import (
    REFUSED_BESIDE_A_FILE,
    config_file,
    inline_stage,
    is_local,
    number,
    uses_deepspeed,
)
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.keys import Releases
    from zeroconf.rules.facts import AccelerateConfig

_CLIPS_BY_DEFAULT_SINCE = (0, 19, 3)


@rule("ZC270", "accelerate-fields-beside-config-file", severity="error")
def accelerate_fields_beside_config_file(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """A field that belongs in the ds_config.json stands beside deepspeed_config_file.

    Accelerate refuses `mixed_precision`, `zero_stage`, `gradient_accumulation_steps`, `gradient_clipping`, the
    offload fields and `zero3_save_16bit_model` as soon as a file is named, whatever their values, null included:
    "When using `deepspeed_config_file`, the following accelerate config variables will be ignored"
    (accelerate/utils/dataclasses.py, DeepSpeedPlugin._deepspeed_config_checks, since 0.16.0; accelerate#2210).
    `zero3_init_flag`, the launcher, hostfile, filter and MoE fields may stay. `mixed_precision` goes into the JSON
    as `"bf16": {"enabled": true}`, or onto the command line as `--mixed_precision bf16`.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        mixed_precision: bf16
        deepspeed_config:
          deepspeed_config_file: ds_config.json
          gradient_accumulation_steps: 4
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
    if not uses_deepspeed(accelerate) or config_file(accelerate) is None:
        return
    for name in REFUSED_BESIDE_A_FILE:
        path = accelerate.path("deepspeed_config", name)
        if accelerate.has("deepspeed_config", name):
            fix = Fix("Remove", remove(accelerate.document, path), safe=accelerate.deepspeed(name) is None)
            message = f"Accelerate refuses '{name}' beside deepspeed_config_file: set it in {config_file(accelerate)}"
            yield Problem(message, path, on_key=True, fix=fix)
    old_fp16 = not accelerate.has("mixed_precision") and bool(accelerate.get("fp16"))
    precision = "fp16" if old_fp16 else "mixed_precision"
    # false is a bare YAML no, which does not come as far as this check
    if old_fp16 or accelerate.get(precision, default=False) is not False:
        fix = Fix("Remove", remove(accelerate.document, accelerate.path(precision)), safe=False)
        message = (
            f"Accelerate refuses '{precision}' beside deepspeed_config_file: set fp16 or bf16 in "
            f"{config_file(accelerate)}, or give --mixed_precision on the command line"
        )
        yield Problem(message, accelerate.path(precision), on_key=True, fix=fix)


@rule("ZC273", "accelerate-clipping-off-is-on", severity="error")
def accelerate_clipping_off_is_on(accelerate: AccelerateConfig, releases: Releases) -> Iterator[Problem]:
    """gradient_clipping 0 is dropped on the way, and DeepSpeed clips at 1.0.

    Accelerate passes the value on only when it is true in Python (accelerate/utils/dataclasses.py,
    DeepSpeedPlugin.__post_init__: `if self.gradient_clipping`), so that 0 becomes no value; without one DeepSpeed
    clips at 1.0 since 0.19.3 (DeepSpeed#8068) and did not clip before. To train without clipping, name a
    ds_config.json that holds `"gradient_clipping": 0`.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 2
          gradient_clipping: 0.0
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          deepspeed_config_file: ds_config.json
        ```
    """
    is_off = number(accelerate.deepspeed("gradient_clipping")) == 0
    if not is_off or not uses_deepspeed(accelerate) or config_file(accelerate) is not None:
        return
    if releases.deepspeed >= _CLIPS_BY_DEFAULT_SINCE:
        message = (
            "gradient_clipping 0 does not reach DeepSpeed, which then clips at 1.0 (since 0.19.3); "
            "a ds_config.json can switch clipping off"
        )
        yield Problem(message, accelerate.path("deepspeed_config", "gradient_clipping"))


@rule("ZC274", "accelerate-clipping-unsaid", severity="info")
def accelerate_clipping_unsaid(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """Without gradient_clipping the gradients are clipped all the same.

    Accelerate puts `auto`, which its own loop fills with 1.0 (accelerate/accelerator.py, _prepare_deepspeed) and
    the Trainer with `max_grad_norm`. Written down, the value shows.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 2
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
    if not uses_deepspeed(accelerate) or inline_stage(accelerate) is None:
        return
    if accelerate.deepspeed("gradient_clipping") is None:
        message = "gradient_clipping is not set: Accelerate's loop clips at 1.0, the Trainer at its max_grad_norm"
        yield Problem(message, accelerate.path("deepspeed_config", "gradient_clipping"))


@rule("ZC277", "deepspeed-config-unused", severity="error", confidence="medium")
def deepspeed_config_unused(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """There is a deepspeed_config, but the distributed type is another one.

    `accelerate launch` starts DeepSpeed only for `distributed_type: DEEPSPEED` or with `--use_deepspeed` on the
    command line (accelerate/commands/launch.py, _validate_launch_command): the block is dropped without a word, and
    with MULTI_GPU every process holds the whole model and optimizer.

    Example:
        ```yaml
        distributed_type: MULTI_GPU
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
        ```
    """
    block = accelerate.get("deepspeed_config")
    if not isinstance(block, dict) or not is_local(accelerate) or not accelerate.has("distributed_type"):
        return
    if not uses_deepspeed(accelerate) and any(value is not None for value in block.values()):
        path = accelerate.path("distributed_type")
        fix = Fix("Write DEEPSPEED", replace(accelerate.document, path, "DEEPSPEED"), safe=False)
        kind = accelerate.get("distributed_type", default="none")
        words = "NO" if kind is False else kind if isinstance(kind, str) else "no known type"
        message = f"deepspeed_config is not used: distributed_type is {words}, not DEEPSPEED"
        yield Problem(message, path, fix=fix)
