"""ZC233-ZC234: gradient clipping and the gradient norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.facts import AUTO
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import (
    is_dedicated_bf16_optimizer,
    is_for_inference,
    is_off,
    number,
    offload_device,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.keys import Releases
    from zeroconf.rules.facts import DsConfig, Reader

_CLIPS_BY_DEFAULT_SINCE = (0, 19, 3)


@rule("ZC233", "clipping-not-in-file", severity="info")
def clipping_not_in_file(config: DsConfig, reader: Reader, releases: Releases) -> Iterator[Problem]:
    """The file leaves gradient clipping to DeepSpeed's default.

    It became 1.0 in 0.19.3 and was 0, no clipping, before (runtime/constants.py, GRADIENT_CLIPPING_DEFAULT;
    DeepSpeed#8068): the same file clips or not, depending on the release. The Trainer's max_grad_norm reaches DeepSpeed
    only through `"gradient_clipping": "auto"` (transformers/integrations/deepspeed.py, trainer_config_process;
    DeepSpeed#6743).

    Example:
        ```json for=trainer
        {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
         "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json for=trainer
        {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
         "zero_optimization": {"stage": 2}, "gradient_clipping": "auto"}
        ```
    """
    if config.has("gradient_clipping") or is_for_inference(config):
        return
    clips = releases.deepspeed >= _CLIPS_BY_DEFAULT_SINCE
    does = "clips gradients at 1.0 (since 0.19.3)" if clips else "clips no gradients (before 0.19.3)"
    if reader.name == "trainer":
        message = f'without gradient_clipping DeepSpeed {does}, whatever max_grad_norm says; "auto" passes it on'
    else:
        message = f"without gradient_clipping DeepSpeed {does}; write the value that you want, 0.0 for none"
    path = config.path("gradient_clipping")
    # only the Trainer's value is known without asking
    passes_on = cure('Add gradient_clipping "auto"', edits.insert(config.document, path, AUTO), safe=False)
    yield Problem(
        message,
        path,
        fix=passes_on if reader.name == "trainer" else None,
        # since 0.19.3 both default to 1.0
        severity="warning" if reader.stated and reader.name == "trainer" and not clips else None,
    )


@rule("ZC234", "grad-norm-off", severity="error")
def grad_norm_off(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """compute_grad_norm is off, and something needs the norm.

    Without the norm DeepSpeed cannot clip, and gradient_clipping is 1.0 by default; nor does it support other stages
    than 1 and 2, an offloaded optimizer, ZenFlow, or stage 1 with bf16 and fp32 accumulation (runtime/zero/config.py,
    compute_grad_norm_valid; runtime/zero/stage_1_and_2.py; runtime/engine.py, _do_optimizer_sanity_check).

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "compute_grad_norm": false}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "compute_grad_norm": false}, "gradient_clipping": 0.0}
        ```
    """
    if not is_off(config, "zero_optimization", "compute_grad_norm") or config.stage is None:
        return
    clipping = number(config, "gradient_clipping") if config.has("gradient_clipping") else 1.0
    reasons = [
        (config.stage not in {1, 2}, "only stages 1 and 2 have it"),
        (clipping is not None and clipping > 0, "gradient_clipping must be 0.0 (it is 1.0 unset)"),
        (offload_device(config, "offload_optimizer") != "none", "an offloaded optimizer needs the norm"),
        (config.zero("zenflow") is not None, "ZenFlow needs the norm"),
        (is_dedicated_bf16_optimizer(config, reader), "stage 1 in bf16 with fp32 accumulation needs the norm"),
    ]
    for applies, reason in reasons:
        if applies:
            yield Problem(
                f"DeepSpeed stops on compute_grad_norm false: {reason}",
                config.path("zero_optimization", "compute_grad_norm"),
            )
            return
