"""ZC207, ZC209, ZC211, ZC215: fp16, bf16 and autocast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.facts import AUTO
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import bf16_block, dtype, precision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.keys import Releases
    from zeroconf.rules.facts import DsConfig, Reader


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
