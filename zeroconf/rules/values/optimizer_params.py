"""ZC224-ZC226: the parameters that the optimizer is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import number, offload_device, optimizer_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig

_ADAM = {"lr", "betas", "eps", "weight_decay", "amsgrad", "torch_adam", "adam_w_mode", "fp32_optimizer_states"}
_TORCH_COMMON = {"foreach", "maximize", "capturable", "differentiable", "fused"}
_PARAMS = {
    "fused adam": _ADAM | {"bias_correction", "set_grad_none"},
    "DeepSpeedCPUAdam": _ADAM | {"bias_correction"},
    "torch's Adam": _ADAM | _TORCH_COMMON | {"decoupled_weight_decay"},
    "DeepSpeedCPUAdagrad": {"lr", "eps", "weight_decay", "amsgrad", "fp32_optimizer_states"},
    "torch's Adagrad": {"lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"} | _TORCH_COMMON,
    "FusedLamb": {
        *("lr", "bias_correction", "betas", "eps", "eps_inside_sqrt", "weight_decay", "max_coeff", "min_coeff"),
        "amsgrad",
    },
    "FusedLion": {"lr", "betas", "weight_decay", "set_grad_none"},
    "DeepSpeedCPULion": {"lr", "betas", "weight_decay", "fp32_optimizer_states"},
    "torch's SGD": {"lr", "momentum", "dampening", "weight_decay", "nesterov"} | _TORCH_COMMON,
}
_CLASSES = {
    # name: on the GPU, offloaded
    "adam": ("fused adam", "DeepSpeedCPUAdam"),
    "adamw": ("fused adam", "DeepSpeedCPUAdam"),
    "adagrad": ("torch's Adagrad", "DeepSpeedCPUAdagrad"),
    "lamb": ("FusedLamb", "FusedLamb"),
    "lion": ("FusedLion", "DeepSpeedCPULion"),
    "SGD": ("torch's SGD", "torch's SGD"),
}


@rule("ZC224", "unknown-optimizer-param", severity="error")
def unknown_optimizer_param(config: DsConfig) -> Iterator[Problem]:
    """The optimizer does not take this parameter.

    optimizer.params go to the optimizer's constructor as they are, which stops with "got an unexpected keyword
    argument" (runtime/engine.py, _configure_basic_optimizer). Which class it is depends on torch_adam and on
    offload_optimizer: fused Adam, DeepSpeedCPUAdam and torch's AdamW take different ones.

    Example:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"learning_rate": 0.001}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
        ```
    """
    node, name = config.node("optimizer", "params"), _class_name(config)
    if node is None or name is None:
        return
    for member in node.members:
        if member.key in _PARAMS[name] or member.key == "max_grad_norm":
            continue
        path = config.path("optimizer", "params", member.key)
        yield Problem(
            f"{name} takes no {member.key}; it takes {', '.join(sorted(_PARAMS[name]))}",
            path,
            on_key=True,
            fix=cure(f"Remove {member.key}", edits.remove(config.document, path), safe=False),
        )


@rule("ZC225", "amsgrad-with-deepspeed-adam", severity="error")
def amsgrad_with_deepspeed_adam(config: DsConfig) -> Iterator[Problem]:
    """DeepSpeed's Adam has no AMSGrad.

    FusedAdam, FusedLamb and today's DeepSpeedCPUAdam stop ("does not support the AMSGrad variant",
    ops/adam/fused_adam.py and cpu_adam.py); older releases of DeepSpeedCPUAdam ignore the key. torch's AdamW has it.

    Example:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "amsgrad": true}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "amsgrad": true,
         "torch_adam": true}}}
        ```
    """
    if _class_name(config) in {"fused adam", "DeepSpeedCPUAdam", "FusedLamb"}:
        path = config.path("optimizer", "params", "amsgrad")
        if config.is_on("optimizer", "params", "amsgrad"):
            yield Problem("DeepSpeed's own Adam and Lamb have no AMSGrad; torch_adam true uses torch's", path)


@rule("ZC226", "lamb-with-static-loss-scale", severity="error")
def lamb_with_static_loss_scale(config: DsConfig) -> Iterator[Problem]:
    """Lamb needs a dynamic loss scale.

    "DeepSpeed lamb optimizer requires dynamic loss scaling" (runtime/engine.py, _do_sanity_check): fp16.loss_scale must
    be 0, even where fp16 is off.

    Example:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 128},
         "optimizer": {"type": "Lamb", "params": {"lr": 0.001}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 0},
         "optimizer": {"type": "Lamb", "params": {"lr": 0.001}}}
        ```
    """
    scale = number(config, "fp16", "loss_scale")
    if optimizer_type(config) == "lamb" and scale is not None and scale > 0:
        path = config.path("fp16", "loss_scale")
        yield Problem(
            f"Lamb stops with the static loss scale {scale:g}; 0 scales dynamically",
            path,
            fix=cure("Write 0", edits.replace(config.document, path, 0), safe=False),
        )


def _class_name(config: DsConfig) -> str | None:
    """Whose constructor gets optimizer.params; None where it takes anything, or is not known here."""
    name = optimizer_type(config)
    if name not in _CLASSES:
        return None
    if name in {"adam", "adamw"} and config.is_on("optimizer", "params", "torch_adam"):
        return "torch's Adam"
    return _CLASSES[name][offload_device(config, "offload_optimizer") != "none"]
