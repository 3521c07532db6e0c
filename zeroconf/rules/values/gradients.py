"""ZC210, ZC216, ZC217, ZC219: the dtypes of gradients and master weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import (
    bf16_block,
    builds_cpu_adam,
    dtype,
    offload_device,
    optimizer_type,
    precision,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig, Reader

_MANY_STEPS = 32  # the last addend is rounded to eighths of itself
_BF16_BITS = 8  # significant ones, the implicit one among them


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
    get_data_types; DeepSpeed#2352). bf16 keeps 8 significant bits, so what is added to a sum of n like it is rounded to
    multiples of 2^(floor(log2 n) - 7) of itself: eighths when the sum is 31, and from 256 on it is lost. From 32 micro
    steps on this is reported. fp32 costs 4 bytes more per parameter of the shard.

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
        power = (steps - 1).bit_length() - _BF16_BITS
        rounded = f"is rounded to multiples of 2^({power + 7} - 7) = 1/{2**-power} of itself" if power < 0 else ""
        lost = "is rounded to whole multiples of itself" if power == 0 else "is lost, as all are from a sum of 256 on"
        yield Problem(
            f"{steps} micro steps add up in bf16, which keeps 8 significant bits: the last, added to a sum of"
            f" {steps - 1} like it, {rounded or lost}; data_types.grad_accum_dtype fp32 costs 4 bytes more per"
            " parameter of the shard",
            config.path("gradient_accumulation_steps"),
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
