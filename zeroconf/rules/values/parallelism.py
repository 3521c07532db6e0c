"""ZC262-ZC264: tensor and pipeline parallelism, activation checkpointing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import whole, world_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig, Reader

_ACTIVATION_SWITCHES = ("partition_activations", "cpu_checkpointing", "contiguous_memory_optimization")


@rule("ZC262", "tensor-parallel-size", severity="error")
def tensor_parallel_size(config: DsConfig) -> Iterator[Problem]:
    """tensor_parallel does not say what it seems to.

    Training goes by autotp_size alone (runtime/engine.py, autotp_size): a `tp.tp_size` without it is parsed and nothing
    is split (DeepSpeed#7389), and another than it stops the engine (_apply_autotp_partitioning). The ranks must be a
    multiple of it.

    Example:
        ```json
        {"train_batch_size": 8, "tensor_parallel": {"tp": {"tp_size": 2}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}}
        ```
    """
    size, nested = whole(config, "tensor_parallel", "autotp_size"), whole(config, "tensor_parallel", "tp", "tp_size")
    path, inner = config.path("tensor_parallel", "autotp_size"), config.path("tensor_parallel", "tp", "tp_size")
    if nested is not None and nested > 1 and (size or 0) <= 1:
        fix = edits.replace if config.has("tensor_parallel", "autotp_size") else edits.insert
        yield Problem(
            f"tp_size {nested} splits nothing: training goes by tensor_parallel.autotp_size",
            inner,
            fix=cure(f"Set autotp_size {nested}", fix(config.document, path, nested), safe=False),
        )
    if size is None or size <= 1:
        return
    if nested not in {None, 1, size}:
        yield Problem(f"tp_size {nested} is not autotp_size {size}; DeepSpeed stops", inner)
    ranks = world_size(config)
    if ranks and ranks % size and not config.has("sequence_parallel_size"):
        yield Problem(
            f"the batch sizes imply {ranks} ranks, no multiple of autotp_size {size}", path, severity="warning"
        )


@rule("ZC263", "activation-checkpointing-block", severity="warning", confidence="medium")
def activation_checkpointing_block(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """The activation_checkpointing block does nothing by itself.

    It configures deepspeed.checkpointing, which a model must call (runtime/activation_checkpointing/checkpointing.py,
    configure); Hugging Face models use torch's and save nothing by this block: switch on gradient_checkpointing
    (huggingface/accelerate#2160, DeepSpeed#5704). Where it is configured, contiguous_memory_optimization stops without
    partition_activations and number_checkpoints.

    Example:
        ```json for=trainer
        {"train_batch_size": "auto", "zero_optimization": {"stage": 2},
         "activation_checkpointing": {"partition_activations": true}}
        ```

    Use instead:
        ```json for=trainer
        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
        ```
    """
    block = "activation_checkpointing"
    on = [key for key in _ACTIVATION_SWITCHES if config.is_on(block, key)]
    if not on:
        return
    yield Problem(
        f"{', '.join(on)}: only models that call deepspeed.checkpointing have it; Hugging Face models save memory by"
        " gradient_checkpointing",
        config.path(block),
        on_key=True,
        severity=None if reader.name == "trainer" else "info",
    )
    if "contiguous_memory_optimization" in on:
        lacks = [k for k in ("partition_activations", "number_checkpoints") if not config.get(block, k, default=0)]
        if lacks:
            yield Problem(
                f"contiguous_memory_optimization needs {' and '.join(lacks)}, here or in the script",
                config.path(block, "contiguous_memory_optimization"),
                severity="info",
            )


@rule("ZC264", "pipeline-settings", severity="warning", confidence="medium")
def pipeline_settings(config: DsConfig) -> Iterator[Problem]:
    """Pipeline settings stand beside what excludes a pipeline.

    A pipeline exists only where the script wraps the model in a PipelineModule; the block does not make one
    (runtime/config.py, get_pipeline_config). Its engine refuses stages 2 and 3: "ZeRO-2 and ZeRO-3 are incompatible
    with pipeline parallelism" (runtime/pipe/engine.py). checkpoint.parallel_write.pipeline_stage is for pipelines too.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "pipeline": {"activation_checkpoint_interval": 1}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 1}, "pipeline": {"activation_checkpoint_interval": 1}}
        ```
    """
    steps = ("checkpoint", "parallel_write", "pipeline_stage")
    if config.stage not in {2, 3}:
        return
    if config.get("pipeline"):
        yield Problem(
            f"pipeline settings at stage {config.stage}: the pipeline engine takes stages 0 and 1 only, and without one"
            " they do nothing",
            config.path("pipeline"),
            on_key=True,
        )
    elif config.is_on(*steps):
        yield Problem(
            f"pipeline_stage is for pipelines, which exclude stage {config.stage}", config.path(*steps), severity="info"
        )
