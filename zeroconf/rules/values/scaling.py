"""ZC212-ZC214: fp16's loss scale and its cast of inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import is_off, number, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig, Reader

# 2^24 times a gradient of 0.004 is over fp16's 65504: what is above starts with a run of skipped steps
_HIGHEST_POWER = 24


@rule("ZC212", "static-loss-scale", severity="warning")
def static_loss_scale(config: DsConfig) -> Iterator[Problem]:
    """fp16 runs with a fixed loss scale.

    loss_scale 0 means dynamic (runtime/precision_config.py, DeepSpeedFP16Config); any other number is kept for the
    whole run, whatever the gradients do, and the keys of dynamic scaling have no effect. Too small and gradients
    vanish below 6e-8, too large and steps are skipped for good (hiyouga/LLaMA-Factory#315).

    Example:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 8, "initial_scale_power": 16}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16}}
        ```
    """
    scale = number(config, "fp16", "loss_scale")
    if scale is None or scale <= 0 or config.enabled("fp16") is False:
        return
    dynamic = ("initial_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale")
    idle = [key for key in dynamic if config.has("fp16", key)]
    path = config.path("fp16", "loss_scale")
    unused = f" and {', '.join(idle)} do nothing" if idle else ""
    yield Problem(
        f"loss_scale {scale:g} stays for the whole run{unused}; 0 scales dynamically",
        path,
        fix=cure("Write 0", edits.replace(config.document, path, 0), safe=False),
        severity=None if config.enabled("fp16") else "info",
    )


@rule("ZC213", "high-initial-loss-scale", severity="warning")
def high_initial_loss_scale(config: DsConfig) -> Iterator[Problem]:
    """The first loss scale is so high that the first steps are lost.

    Dynamic scaling starts at 2^initial_scale_power (16 by default; runtime/fp16/loss_scaler.py, DynamicLossScaler) and
    halves at an overflow, skipping the step. fp16 ends at 65504, just below 2^16, so 2^32 is halved about 16
    times first.

    Example:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 32}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16}}
        ```
    """
    power, on = whole(config, "fp16", "initial_scale_power"), config.enabled("fp16")
    if power is None or power <= _HIGHEST_POWER or on is False or (number(config, "fp16", "loss_scale") or 0) > 0:
        return
    path = config.path("fp16", "initial_scale_power")
    yield Problem(
        f"the loss scale starts at 2^{power} and must come down to about 2^16 before a gradient fits into fp16:"
        f" about {power - 16} steps are skipped first; 16 is the default",
        path,
        fix=cure("Write 16", edits.replace(config.document, path, 16), safe=False),
        severity=None if on else "info",
    )


@rule("ZC214", "auto-cast-without-fp16", severity="warning", confidence="medium")
def auto_cast_without_fp16(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """fp16.auto_cast casts the inputs although fp16 is off.

    The engine asks for auto_cast alone and turns float inputs given by position into fp16, also for a model in fp32 or
    bf16, whose first layer then fails: "mat1 and mat2 must have the same dtype" (runtime/engine.py,
    fp16_auto_cast and _cast_inputs_half). Token ids and keyword arguments, as Hugging Face models take them, pass.

    Example:
        ```json for=deepspeed
        {"train_batch_size": 8, "bf16": {"enabled": true}, "fp16": {"enabled": false, "auto_cast": true}}
        ```

    Use instead:
        ```json for=deepspeed
        {"train_batch_size": 8, "bf16": {"enabled": true}, "fp16": {"enabled": false}}
        ```
    """
    off = is_off(config, "fp16", "enabled") or not config.has("fp16", "enabled")
    if not off or not config.is_on("fp16", "auto_cast"):
        return
    path = config.path("fp16", "auto_cast")
    yield Problem(
        "auto_cast turns float inputs into fp16 although fp16 is off; set it to false",
        path,
        fix=cure("Write false", edits.replace(config.document, path, value=False)),
        severity=None if reader.stated and reader.name == "deepspeed" else "info",
    )
