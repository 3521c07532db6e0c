"""ZC251-ZC253, ZC257: ZeRO++, that is partition inside the node and quantised traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import is_off, offload_device, whole, world_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig

_HPZ = "zero_hpz_partition_size"
_QUANTIZED = ("zero_quantized_weights", "zero_quantized_nontrainable_weights", "zero_quantized_gradients")
_GPUS_OF_USUAL_NODES = 8


@rule("ZC251", "zeropp-below-stage-3", severity="warning")
def zeropp_below_stage_3(config: DsConfig) -> Iterator[Problem]:
    """ZeRO++ has no effect below stage 3.

    zero_hpz_partition_size and the zero_quantized_ keys reach the optimizer of stage 3 only (runtime/engine.py,
    _configure_zero_optimizer): below it nothing is partitioned inside the node and nothing is quantised.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "zero_quantized_gradients": true}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_quantized_gradients": true}}
        ```
    """
    if config.stage is None or config.stage == 3:
        return
    on = [key for key in _QUANTIZED if config.is_on("zero_optimization", key)]
    if (whole(config, "zero_optimization", _HPZ) or 0) > 1:
        on.append(_HPZ)
    for key in on:
        path = config.path("zero_optimization", key)
        yield Problem(
            f"{key} has no effect at stage {config.stage}: ZeRO++ is stage 3",
            path,
            on_key=True,
            fix=cure(f"Remove {key}", edits.remove(config.document, path), safe=False),
        )


@rule("ZC252", "partition-size-inside-the-node", severity="warning", confidence="medium")
def partition_size_inside_the_node(config: DsConfig) -> Iterator[Problem]:
    """zero_hpz_partition_size does not fit the GPUs.

    It is to be the number of GPUs of a node, so that gathers stay inside it (DeepSpeed#6889). The world size must be a
    multiple of it ("is not divisible by"), and one that is larger is cut to the world size without a word
    (utils/groups.py, _create_zero_param_parallel_group). The world size is known where all three batch sizes are given;
    a size of more than 8 is told because nodes of more than 8 GPUs are rare.

    Example:
        ```json
        {"train_batch_size": 24, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1,
         "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 16}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 24, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1,
         "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
        ```
    """
    size, world = whole(config, "zero_optimization", _HPZ), world_size(config)
    if config.stage != 3 or size is None or size <= 1:
        return
    path = config.path("zero_optimization", _HPZ)
    is_plain = not any(config.has(key) for key in ("sequence_parallel_size", "data_parallel_size", "tensor_parallel"))
    if world and is_plain and world % min(size, world):
        yield Problem(f"the batch sizes imply {world} ranks, which {_HPZ} {size} does not divide", path)
    elif world and is_plain and size > world:
        yield Problem(
            f"the batch sizes imply {world} ranks: {_HPZ} {size} is cut to {world}, a whole copy over all ranks", path
        )
    elif size > _GPUS_OF_USUAL_NODES:
        yield Problem(
            f"{_HPZ} {size} keeps gathers inside the node only where a node has {size} GPUs; most have"
            f" {_GPUS_OF_USUAL_NODES}",
            path,
            severity="info",
        )


@rule("ZC253", "partition-inside-the-node-with-offload", severity="warning", confidence="low")
def partition_inside_the_node_with_offload(config: DsConfig) -> Iterator[Problem]:
    """A partition inside the node is combined with offload.

    Runs with zero_hpz_partition_size and offload are reported to train nothing: loss 0.0 or unchanged, gradient norm 0
    (DeepSpeed#6926, DeepSpeed#6391). Not reproduced without GPUs; watch the loss of the first steps.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8,
         "offload_param": {"device": "cpu"}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
        ```
    """
    size = whole(config, "zero_optimization", _HPZ)
    offloaded = [b for b in ("offload_param", "offload_optimizer") if offload_device(config, b) != "none"]
    if config.stage == 3 and size is not None and size > 1 and offloaded:
        yield Problem(
            f"{_HPZ} {size} with {' and '.join(offloaded)} is reported to train nothing (loss 0.0, gradient norm 0);"
            " use one of them, or watch the first steps",
            config.path("zero_optimization", _HPZ),
        )


@rule("ZC257", "quantised-traffic", severity="error")
def quantised_traffic(config: DsConfig) -> Iterator[Problem]:
    """Quantised traffic is combined with what it excludes.

    zero_quantized_gradients needs reduce_scatter, its default ("when enable all_to_all_reduce, reduce_scatter should
    also be enabled", runtime/zero/stage3.py); zero_quantized_weights excludes torch_autocast at every stage ("Cannot
    enable both torch autocast and zero quantized weights", runtime/torch_autocast.py).

    Example:
        ```json
        {"train_batch_size": 8,
         "zero_optimization": {"stage": 3, "zero_quantized_gradients": true, "reduce_scatter": false}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_quantized_gradients": true}}
        ```
    """
    zero = "zero_optimization"
    if config.stage == 3 and config.is_on(zero, "zero_quantized_gradients") and is_off(config, zero, "reduce_scatter"):
        path = config.path(zero, "reduce_scatter")
        yield Problem(
            "zero_quantized_gradients stops without reduce_scatter",
            path,
            fix=cure("Remove reduce_scatter", edits.remove(config.document, path), safe=False),
        )
    if config.is_on(zero, "zero_quantized_weights") and config.enabled("torch_autocast"):
        yield Problem(
            "zero_quantized_weights and torch_autocast exclude each other",
            config.path(zero, "zero_quantized_weights"),
            on_key=True,
        )
