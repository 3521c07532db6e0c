"""ZC218, ZC224-ZC226: the parameters that the optimizer is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zeroconf.document import edits
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.names import unknown_params
from zeroconf.rules.values.settings import is_off, number, offload_device, optimizer_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.keys import Releases
    from zeroconf.rules.facts import DsConfig

_ADAM = {"lr", "betas", "eps", "weight_decay", "amsgrad", "torch_adam", "adam_w_mode", "fp32_optimizer_states"}
_TORCH_COMMON = {"foreach", "maximize", "capturable", "differentiable", "fused"}
_PARAMS = {
    "FusedAdam": _ADAM | {"bias_correction", "set_grad_none"},
    "DeepSpeedCPUAdam": _ADAM | {"bias_correction"},
    "torch's AdamW": _ADAM | _TORCH_COMMON,
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
    "adam": ("FusedAdam", "DeepSpeedCPUAdam"),
    "adamw": ("FusedAdam", "DeepSpeedCPUAdam"),
    "adagrad": ("torch's Adagrad", "DeepSpeedCPUAdagrad"),
    "lamb": ("FusedLamb", "FusedLamb"),
    "lion": ("FusedLion", "DeepSpeedCPULion"),
    "SGD": ("torch's SGD", "torch's SGD"),
}
_SHOWN = {"adam": "Adam", "adamw": "AdamW", "adagrad": "Adagrad", "lamb": "Lamb", "lion": "Lion"}
# parameters of other optimizers: those above, Muon, and the 1-bit ones
_OF_OTHERS = set[str]().union(*_PARAMS.values()) | {
    *("muon_lr", "adam_lr", "ns_method", "per_head_muon", "freeze_step", "cuda_aware", "comm_backend_name"),
    *("var_freeze_step", "var_update_scaler", "local_step_scaler", "local_step_clipper", "coeff_beta", "factor_max"),
    *("factor_min", "factor_threshold", "max_grad_norm"),
}


class _Built(NamedTuple):
    """The class whose constructor gets optimizer.params, and in words what of the file makes it that one."""

    name: str
    why: str


@rule("ZC224", "unknown-optimizer-param", severity="error")
def unknown_optimizer_param(config: DsConfig, releases: Releases) -> Iterator[Problem]:
    """The optimizer does not take this parameter.

    optimizer.params go to the optimizer's constructor as they are, which stops with "got an unexpected keyword
    argument" (runtime/engine.py, _configure_basic_optimizer). Which class it is depends on torch_adam and on
    offload_optimizer: FusedAdam, DeepSpeedCPUAdam and torch's AdamW take different ones.

    Example:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"learning_rate": 0.001}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
        ```
    """
    built = class_built(config)
    if built is None:
        return
    # clipping has a rule of its own
    taken = _PARAMS[built.name] | {"max_grad_norm"}
    for _, problem in unknown_params(
        config, "optimizer", taken, _OF_OTHERS, f"{built.why} is {built.name}, which", releases.deepspeed
    ):
        yield problem


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
    built = class_built(config)
    if built is not None and built.name in {"FusedAdam", "DeepSpeedCPUAdam", "FusedLamb"}:
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


def class_built(config: DsConfig) -> _Built | None:
    """What DeepSpeed makes of the type; None where its class takes anything, or is not known here."""
    name = optimizer_type(config)
    if name not in _CLASSES:
        return None
    shown, device = _SHOWN.get(name, name), offload_device(config, "offload_optimizer")
    if name in {"adam", "adamw"} and config.is_on("optimizer", "params", "torch_adam"):
        if name == "adam" and is_off(config, "optimizer", "params", "adam_w_mode"):
            return _Built("torch's Adam", "Adam with torch_adam and adam_w_mode false")
        return _Built("torch's AdamW", f"{shown} with torch_adam")
    plain, offloaded = _CLASSES[name]
    if plain == offloaded:
        return _Built(plain, shown)
    if device == "none":
        return _Built(plain, f"{shown} without offload_optimizer")
    return _Built(offloaded, f"{shown} with {'CPU' if device == 'cpu' else 'NVMe'} offload")


@rule("ZC218", "betas-not-two", severity="error")
def betas_not_two(config: DsConfig) -> Iterator[Problem]:
    """The optimizer's betas are not two numbers.

    Adam, Lamb and Lion take a pair; another number of them fails at the first step, "not enough values to unpack"
    (ops/adam/fused_adam.py, step), and under the Trainer before, where the pair is compared with its own adam_beta1
    and adam_beta2 (transformers/integrations/deepspeed.py, trainer_config_process).

    Example:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9], "torch_adam": true}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.999], "torch_adam": true}}}
        ```
    """
    node = config.node("optimizer", "params", "betas")
    is_pair = (optimizer_type(config) or "").lower() in {"adam", "adamw", "lamb", "lion"}
    if is_pair and node is not None and node.kind == "sequence" and len(node.items) != 2:
        yield Problem(
            f"betas are a pair of numbers, not {len(node.items)}: write two, like [0.9, 0.999]",
            config.path("optimizer", "params", "betas"),
        )
