"""ZC207-ZC211, ZC215-ZC219: fp16, bf16, autocast, and the dtypes of gradients and states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.facts import AUTO
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import (
    bf16_block,
    builds_cpu_adam,
    cure,
    dtype,
    offload_device,
    optimizer_type,
    precision,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.keys import Releases
    from zeroconf.rules.facts import DsConfig, Reader

_MANY_STEPS = 16


@rule("ZC207", "fp16-and-bf16", severity="error")
def fp16_and_bf16(config: DsConfig) -> Iterator[Problem]:
    """fp16 and bf16 are both on.

    DeepSpeed stops: "bfloat16 and fp16 modes cannot be simultaneously enabled" (runtime/config.py,
    _initialize_params). "auto" in both is fine: the Trainer and Accelerate switch one of them on.

    Example:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": true}, "bf16": {"enabled": true}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "fp16": {"enabled": false}, "bf16": {"enabled": true}}
        ```
    """
    name = bf16_block(config)
    if config.enabled("fp16") and config.enabled(name):
        path = config.path("fp16", "enabled")
        yield Problem(
            f"fp16 and {name} are both enabled and DeepSpeed takes one; bf16 needs no loss scaling",
            path,
            fix=cure("Switch fp16 off", edits.replace(config.document, path, value=False), safe=False),
        )


@rule("ZC208", "bfloat16-beside-bf16", severity="error")
def bfloat16_beside_bf16(config: DsConfig) -> Iterator[Problem]:
    """A bfloat16 block is ignored because there is a bf16 block too.

    "bfloat16" is the old name and read only where "bf16" is missing (runtime/precision_config.py,
    get_bfloat16_config), so `bfloat16` on beside `bf16` off trains in fp32 without a word (a file in DeepSpeed#4281
    holds both).

    Example:
        ```json
        {"train_batch_size": 8, "bf16": {"enabled": false}, "bfloat16": {"enabled": true}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "bf16": {"enabled": true}}
        ```
    """
    if config.get("bf16") is None or not config.has("bfloat16"):
        return
    new, old = config.enabled("bf16"), config.enabled("bfloat16")
    path = config.path("bfloat16")
    yield Problem(
        "DeepSpeed ignores bfloat16 beside bf16"
        + (", which is off: the model trains in fp32; set bf16.enabled" if old and new is False else "; remove it"),
        path,
        on_key=True,
        fix=cure("Remove bfloat16", edits.remove(config.document, path), safe=new == old),
        severity=None if old and new is False else "info",
    )


@rule("ZC209", "precision-block-without-enabled", severity="warning")
def precision_block_without_enabled(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """A precision block without enabled is off.

    enabled is false by default (runtime/precision_config.py, DeepSpeedBF16Config). The Trainer and Accelerate replace
    an "auto" but add no missing key, and as the block is there they leave it at that: `"bf16": {}` with `--bf16` trains
    in fp32 (transformers/integrations/deepspeed.py, fill_match).

    Example:
        ```json
        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}, "bf16": {}}
        ```

    Use instead:
        ```json
        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}}
        ```
    """
    for name in ("bf16", "fp16", "torch_autocast"):
        node = config.node(name)
        if node is None or node.kind != "mapping" or config.get(name, "enabled") is not None:
            continue
        if config.has(name, "enabled"):  # null: a matter of types
            continue
        value = AUTO if reader.fills_auto and name != "torch_autocast" else True
        shown = f'"{AUTO}"' if value == AUTO else "true"
        yield Problem(
            f"{name} without enabled is off; set {name}.enabled, or remove the block",
            config.path(name),
            on_key=True,
            fix=cure(
                f"Add enabled {shown}",
                edits.insert(config.document, config.path(name, "enabled"), value),
                safe=False,
            ),
        )


@rule("ZC210", "fp32-accumulation-without-zero", severity="error")
def fp32_accumulation_without_zero(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """At stage 0 gradients accumulate in the model's dtype only.

    "unsupported mix of model_dtype and grad_accum_dtype" (runtime/engine.py, _do_optimizer_sanity_check;
    DeepSpeed#1835, DeepSpeed#4713): data_types.grad_accum_dtype differs from the parameters' dtype only with ZeRO.

    Example:
        ```json
        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
         "zero_optimization": {"stage": 1}}
        ```
    """
    accumulated, model = dtype(config, "data_types", "grad_accum_dtype"), precision(config, reader)
    if config.stage == 0 and accumulated and model and accumulated != model:
        yield Problem(
            f"{model} training accumulates gradients in {accumulated} with ZeRO only; at stage 0 DeepSpeed stops:"
            " use stage 1, or leave grad_accum_dtype out",
            config.path("data_types", "grad_accum_dtype"),
        )


@rule("ZC211", "param-dtype-against-precision", severity="error")
def param_dtype_against_precision(config: DsConfig, reader: Reader, releases: Releases) -> Iterator[Problem]:
    """data_types.param_dtype is not the dtype that fp16 or bf16 choose.

    The engine stops since the key exists, 0.19.2 (runtime/engine.py, _assert_valid_mixed_precision_config): the
    optimizers go by fp16.enabled and bf16.enabled.

    Example:
        ```json
        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"param_dtype": "fp16"}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "bf16": {"enabled": true}}
        ```
    """
    asked, model = dtype(config, "data_types", "param_dtype"), precision(config, reader)
    if asked and model and asked != model and releases.deepspeed >= (0, 19, 2):
        path = config.path("data_types", "param_dtype")
        yield Problem(
            f"param_dtype {asked} against {model} parameters by fp16.enabled and bf16.enabled: DeepSpeed stops;"
            " leave param_dtype out",
            path,
            fix=cure("Remove param_dtype", edits.remove(config.document, path), safe=False),
        )


@rule("ZC215", "autocast-over-16-bit", severity="warning")
def autocast_over_16_bit(config: DsConfig, reader: Reader, releases: Releases) -> Iterator[Problem]:
    """torch_autocast and fp16 or bf16 are both on.

    torch_autocast keeps fp32 parameters and casts inside the forward pass; fp16 and bf16 cast the parameters
    themselves. Until 0.18.0 DeepSpeed refused both together (runtime/torch_autocast.py, _validate_auto_cast_settings);
    since then the parameters are 16-bit and autocast has little left to do, and with two different dtypes the
    gradients are reduced in the autocast one.

    Example:
        ```json
        {"train_batch_size": 8, "bf16": {"enabled": true}, "torch_autocast": {"enabled": true, "dtype": "bfloat16"}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"}}
        ```
    """
    model = precision(config, reader)
    if model in {None, "fp32"} or not config.enabled("torch_autocast"):
        return
    cast = dtype(config, "torch_autocast", "dtype")
    refused = releases.deepspeed < (0, 18, 1)
    if refused:
        does = "DeepSpeed refuses both until 0.18.0"
    elif cast and cast != model:
        does = f"parameters become {model} and gradients are reduced in {cast}"
    else:
        does = f"parameters are {model} already"
    yield Problem(
        f"torch_autocast beside {model}: {does}; keep one of them",
        config.path("torch_autocast", "enabled"),
        severity="error" if refused else None,
    )


@rule("ZC216", "fp16-for-bf16-gradients", severity="warning")
def fp16_for_bf16_gradients(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """bf16 gradients pass through fp16.

    communication_data_type and data_types.grad_accum_dtype convert the gradients (runtime/engine.py, get_data_types;
    runtime/zero/stage_1_and_2.py). bf16 training scales no loss, so what exceeds fp16's 65504 becomes infinite and what
    is below 6e-8 becomes 0.

    Example:
        ```json
        {"train_batch_size": 8, "bf16": {"enabled": true}, "communication_data_type": "fp16",
         "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "bf16": {"enabled": true}, "communication_data_type": "bf16",
         "zero_optimization": {"stage": 2}}
        ```
    """
    if precision(config, reader) != "bf16":
        return
    for steps in (("communication_data_type",), ("data_types", "grad_accum_dtype")):
        if dtype(config, *steps) == "fp16":
            path = config.path(*steps)
            yield Problem(
                f"{steps[-1]} fp16 overflows beyond 65504, and bf16 training does not scale the loss; use bf16 or fp32",
                path,
                fix=cure("Write bf16", edits.replace(config.document, path, "bf16"), safe=False),
            )


@rule("ZC217", "bf16-accumulation", severity="info")
def bf16_accumulation(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """Many micro steps accumulate in bf16.

    Gradients accumulate in the parameters' dtype unless data_types.grad_accum_dtype says fp32 (runtime/engine.py,
    get_data_types; DeepSpeed#2352). bf16 holds 8 significant bits: a sum of many steps swallows small gradients. fp32
    costs 4 bytes more per parameter of the shard.

    Example:
        ```json
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 64, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 64, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 2}, "data_types": {"grad_accum_dtype": "fp32"}}
        ```
    """
    steps = whole(config, "gradient_accumulation_steps")
    if steps is None or steps < _MANY_STEPS or not config.stage or precision(config, reader) != "bf16":
        return
    if config.get("data_types", "grad_accum_dtype") is None:
        yield Problem(
            f"{steps} micro steps add up in bf16, with 8 significant bits; data_types.grad_accum_dtype fp32 adds them"
            " exactly for 4 bytes more per parameter of the shard",
            config.path("gradient_accumulation_steps"),
        )


@rule("ZC218", "bf16-overflow-unchecked", severity="info")
def bf16_overflow_unchecked(config: DsConfig, reader: Reader, releases: Releases) -> Iterator[Problem]:
    """A NaN gradient ends a bf16 run for good.

    Only since 0.19.3 (DeepSpeed#8035) does ZeRO skip a bf16 step whose gradients are not finite; releases from 0.17.1
    on do so with bf16.check_grad_overflow (runtime/precision_config.py, DeepSpeedBF16Config; DeepSpeed#2911).

    Example:
        ```json deepspeed=0.18.9
        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json deepspeed=0.18.9
        {"train_batch_size": 8, "bf16": {"enabled": true, "check_grad_overflow": true},
         "zero_optimization": {"stage": 2}}
        ```
    """
    name = bf16_block(config)
    if not config.stage or precision(config, reader) != "bf16":
        return
    is_off_by_default = (0, 17, 1) <= releases.deepspeed < (0, 19, 3)
    if is_off_by_default and config.get(name, "check_grad_overflow") is None:
        path = config.path(name, "check_grad_overflow")
        yield Problem(
            "before 0.19.3 a step with NaN gradients is taken in bf16 and destroys the weights;"
            " check_grad_overflow skips it",
            path,
            fix=cure("Add check_grad_overflow", edits.insert(config.document, path, value=True), safe=False),
        )


@rule("ZC219", "master-weights-in-16-bit", severity="error")
def master_weights_in_16_bit(config: DsConfig) -> Iterator[Problem]:
    """16-bit master weights are asked for where DeepSpeed cannot keep them.

    fp16_master_weights_and_grads and bf16_master_weights_and_grads need ZeRO (runtime/config.py, _do_error_check) and
    an optimizer offloaded as DeepSpeedCPUAdam; only with bf16_optimizer_states may bf16 ones stay on the GPU
    (runtime/base_optimizer.py, _configure_master_weights).

    Example:
        ```json
        {"train_batch_size": 8, "bf16": {"enabled": true, "bf16_master_weights_and_grads": true},
         "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8,
         "bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true},
         "zero_optimization": {"stage": 2}}
        ```
    """
    block = bf16_block(config)
    fp16 = config.is_on("fp16", "fp16_master_weights_and_grads")
    bf16 = config.is_on(block, "bf16_master_weights_and_grads")
    states = config.is_on(block, "bf16_optimizer_states")
    path = config.path("fp16", "fp16_master_weights_and_grads") if fp16 else None
    path = config.path(block, "bf16_master_weights_and_grads") if bf16 else path
    path = config.path(block, "bf16_optimizer_states") if states and not bf16 else path
    if path is None or config.stage is None:
        return
    key = path[-1]
    is_offloaded = offload_device(config, "offload_optimizer") != "none"
    in_cpu_adam = is_offloaded and (optimizer_type(config) is None or builds_cpu_adam(config))
    if config.stage == 0:
        yield Problem(f"{key} needs ZeRO stage 1, 2 or 3", path)
    elif states and not bf16:
        yield Problem("bf16_optimizer_states needs bf16_master_weights_and_grads too", path)
    elif fp16 and bf16:
        yield Problem("fp16 and bf16 master weights exclude each other; keep the one of the precision that is on", path)
    elif not in_cpu_adam and (fp16 or is_offloaded or not states):
        cure_of_bf16 = "" if fp16 or is_offloaded else ", or bf16_optimizer_states true"
        yield Problem(f"{key} needs offload_optimizer with DeepSpeedCPUAdam (type AdamW){cure_of_bf16}", path)
