"""ZC301 to ZC304: what the plan needs against what GPU, host and NVMe have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.planned import set_to
from zeroconf.rules.registry import Problem, rule
from zeroconf.units import ceil_div, count, gib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig
    from zeroconf.rules.planned import Field, Planned
    from zeroconf.types import Cluster, MemoryParts, ModelSpec

_PARTS = (
    "parameters",
    "gradients",
    "optimizer_states",
    "buffers",
    "gathered_parameters",
    "activations",
    "logits",
    "temporaries",
    "overhead",
)
# the largest parts of a peak that a message names
_NAMED_PARTS = 3
# elements of AsyncPartitionedParameterSwapper's buffers without buffer_size (runtime/zero/offload_config.py)
_DEFAULT_SWAP_BUFFER = 100_000_000


@rule("ZC301", "gpu-memory-exceeded", severity="error", confidence="medium")
def gpu_memory_exceeded(planned: Planned) -> Iterator[Problem]:
    """The plan does not fit on the GPU.

    Peak of the analytic model (weights, gradients, optimizer states, DeepSpeed's buffers and temporaries, activations,
    logits, CUDA context), moment by moment, against the memory that PyTorch reports for the card; the model is tried
    against DeepSpeed's own allocations (runtime/zero/stage3.py, runtime/zero/stage_1_and_2.py; docs/accuracy.md). An
    error where even the low end of the predicted interval is over the card; a warning where only the high end is. A
    batch that the file leaves open counts as one sequence. Where nobody says whether activations are recomputed, they
    are if the plan is not comfortable without: what is told does not fit either way.

    Example:
        ```json model=7B hardware=8xA100-80GB
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 0}}
        ```

    Use instead:
        ```json model=7B hardware=8xA100-80GB
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 2}}
        ```
    """
    cost = planned.cost
    if cost.verdict != "does-not-fit":
        return
    gpu, capacity = cost.gpu, f"{gib(cost.capacity_bytes)} of {planned.facts.cluster.gpu.name}"
    is_sure = planned.of_file.surely_exceeds_gpu
    reach = f"at least {gib(gpu.low_bytes)}" if is_sure else f"up to {gib(gpu.high_bytes)}"
    field: Field = "stage"
    fix = None
    if (smaller := _smaller_buckets(planned)) is not None:
        field, fix = "bucket", set_to(planned, bucket=smaller)
    elif cost.gpu.peak.activations + cost.gpu.peak.logits > cost.gpu.peak.total // 2:
        field = "micro"
    yield Problem(
        f"stage {planned.plan.stage} needs {gib(gpu.peak_allocated_bytes)} on each GPU at the peak"
        f" ({gpu.peak_moment}), {reach}, of {capacity}: {_largest_parts(gpu.peak)}{planned.of_file.instead}",
        planned.path(_present(planned, field)),
        fix=fix,
        severity="error" if is_sure else "warning",
    )


def _present(planned: Planned, field: Field) -> Field:
    """The field, or the stage where the file does not say it."""
    root = planned.view.document.root
    return field if root is not None and root.at(planned.path(field)) is not None else "stage"


def _smaller_buckets(planned: Planned) -> int | None:
    """The reduce bucket with which the plan as it is would fit: one square weight matrix; None where none helps."""
    matrix = max(planned.facts.model.hidden_size**2, 1_000_000)
    if planned.plan.stage == 0 or planned.plan.reduce_bucket_size <= matrix:
        return None
    tried = planned.of_file.with_changes(reduce_bucket_size=matrix)
    return matrix if tried.rejected_by is None else None


def _largest_parts(parts: MemoryParts) -> str:
    """``optimizer states 62.1 GiB, gradients 12.6 GiB, parameters 12.6 GiB``."""
    sizes = sorted(((getattr(parts, name), name) for name in _PARTS), reverse=True)[:_NAMED_PARTS]
    return ", ".join(f"{name.replace('_', ' ')} {gib(size)}" for size, name in sizes if size)


@rule("ZC302", "host-memory-exceeded", severity="error", confidence="medium")
def host_memory_exceeded(planned: Planned) -> Iterator[Problem]:
    """A node's host memory does not hold what is offloaded, or the model while it is loaded.

    Optimizer offload keeps fp32 master weights, momentum, variance and gradients on the host, about 16 bytes per
    parameter, pinned blocks rounded up to powers of two (runtime/zero/stage_1_and_2.py, runtime/zero/stage3.py;
    PyTorch's CachingHostAllocator; DeepSpeed#4239, DeepSpeed#3160). When it runs out, the kernel kills the process:
    exit code -9. Below stage 3, and at stage 3 without zero.Init, every rank loads the whole model first: ranks x model
    bytes (accelerate#1801), a warning, since a loader may do better.

    Example:
        ```json model=13B hardware=8xA100-80GB host-memory=128GiB seq-len=2048
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
        ```

    Use instead:
        ```json model=13B hardware=8xA100-80GB host-memory=1024GiB seq-len=2048
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
        ```
    """
    cluster, host, plan = planned.facts.cluster, planned.cost.host, planned.plan
    room = cluster.host_memory_bytes
    if room is None or host.peak_bytes <= room:
        return
    training = host.pinned_bytes + host.pageable_bytes
    if training > room:
        yield Problem(
            f"offload needs {gib(training)} of host memory on each node, {gib(host.pinned_bytes)} of it pinned, of"
            f" {gib(room)}{planned.of_file.instead}",
            planned.path("offload_optimizer" if plan.offload_optimizer != "none" else "offload_param"),
        )
        return
    ranks, offloaded = cluster.gpus_per_node, f" and {gib(training)} offloaded" if training and plan.stage == 3 else ""
    yield Problem(
        f"while loading, {ranks} ranks each hold {gib(host.loading_bytes / ranks)} of the model{offloaded}:"
        f" {gib(host.loading_bytes)} on each node of {gib(room)}; build it under zero.Init (stage 3), or load it on one"
        " rank at a time",
        planned.path("stage"),
        severity="warning",
    )


@rule("ZC303", "nvme-too-small", severity="error", confidence="medium")
def nvme_too_small(planned: Planned) -> Iterator[Problem]:
    """A node's NVMe does not hold what is offloaded to it.

    fp32 master weights, momentum, variance and gradients are 16 bytes per parameter of the node's share, offloaded
    weights 2 more (runtime/swap_tensor/optimizer_utils.py, runtime/swap_tensor/partitioned_param_swapper.py). A full
    disk shows as "buffer nbytes != file bytes" (DeepSpeed#1627).

    Example:
        ```json model=70B hardware=8xA100-80GB nvme=/scratch:500GB host-memory=1024GiB
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/scratch"}}}
        ```

    Use instead:
        ```json model=70B hardware=8xA100-80GB nvme=/scratch:3.5TB host-memory=1024GiB
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/scratch"}}}
        ```
    """
    disk, need = planned.facts.cluster.nvme, planned.cost.nvme_bytes
    if disk is not None and need > disk.capacity_bytes:
        field: Field = "offload_optimizer" if planned.plan.offload_optimizer == "nvme" else "offload_param"
        yield Problem(
            f"offload to NVMe writes {gib(need)} on each node of {gib(disk.capacity_bytes)} ({disk.path})"
            f"{planned.of_file.instead}",
            planned.path(field),
        )


@rule("ZC304", "swap-buffer-below-largest-parameter", severity="error")
def swap_buffer_below_largest_parameter(config: DsConfig, model: ModelSpec, cluster: Cluster) -> Iterator[Problem]:
    """offload_param.buffer_size is smaller than the model's largest parameter.

    Each rank's part of a parameter goes through one buffer: "More elements 524709888 than buffer size 100,000,000"
    (runtime/swap_tensor/partitioned_param_swapper.py, AsyncPartitionedParameterSwapper; DeepSpeed#3506). The largest
    parameter is the vocabulary matrix, or an MLP's, or all experts of a block together; its part is that divided by the
    ranks, rounded up. Only weights on NVMe are swapped so.

    Example:
        ```json model=llama-3.1-8b hardware=1xA100-80GB nvme=/scratch:3.5TB
        {"train_batch_size": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/scratch",
          "buffer_size": 100000000}, "offload_optimizer": {"device": "cpu"}}}
        ```

    Use instead:
        ```json model=llama-3.1-8b hardware=1xA100-80GB nvme=/scratch:3.5TB
        {"train_batch_size": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/scratch",
          "buffer_size": 530000000}, "offload_optimizer": {"device": "cpu"}}}
        ```
    """
    if config.stage != 3 or config.offload("offload_param") != "nvme":
        return
    path = config.path("zero_optimization", "offload_param", "buffer_size")
    size = config.number("zero_optimization", "offload_param", "buffer_size")
    is_open = config.zero("offload_param", "buffer_size") is None
    part = ceil_div(model.largest_parameter, cluster.num_gpus)
    limit = _DEFAULT_SWAP_BUFFER if is_open else size
    if limit is None or limit >= part:
        return
    yield Problem(
        f"buffer_size {int(limit):,}{' (the default)' if is_open else ''} is less than the {part:,} elements of a"
        f" rank's part of the largest parameter ({count(model.largest_parameter)} elements / {cluster.num_gpus} ranks)",
        path,
        fix=cure(f"Write {part}", edits.insert(config.document, path, part)),
    )
