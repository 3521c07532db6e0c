"""Host memory and NVMe per node, and what a checkpoint takes on disk, in bytes."""

from __future__ import annotations

from typing import Final

from zeroconf.estimate import reference
from zeroconf.estimate.sizes import MASTER_BYTES, Sizes
from zeroconf.types import Cluster, HostMemory, Plan
from zeroconf.units import next_power_of_two

_PARAMETER_STAGE: Final = 3
_GRADIENT_BYTES: Final = 4
# max_in_cpu by default, in elements (zero/offload_config.py)
_MAX_IN_CPU: Final = 1_000_000_000
# Transformers reads checkpoints shard by shard under zero.Init; its default shard is 5 GB
_LOADING_SHARD_BYTES: Final = 5 * 10**9

# bytes of one block, and how many there are
Blocks = dict[str, tuple[int, int]]


def host_memory(sizes: Sizes, cluster: Cluster, plan: Plan) -> HostMemory:
    """One node's host memory: what offload keeps there, and what loading the weights takes.

    Pinned blocks are rounded to the next power of two (PyTorch's CachingHostAllocator) and come per
    parameter group at stages 1 and 2, per sub-group at stage 3. 8.03e9 parameters, 8 GPUs on a node, stage 2
    with the optimizer on the CPU: 4.0e9-byte master and gradient blocks become 4.29e9.
    """
    ranks = cluster.gpus_per_node
    pinned, pageable, rounding = _offloaded(sizes, plan)
    beside = reference.host_bytes(sizes, plan)
    apart = _pinned_apart(sizes, beside)
    pinned += apart
    rounding += apart - beside
    # tensor parallelism splits the model that every rank has loaded
    model_bytes = sizes.element_bytes * sizes.total * (cluster.num_gpus // sizes.world_size)
    # flattened on the host, the weights are there twice
    flattening = 0 if sizes.release.flattens_on_gpu or plan.stage == 0 else 2 * sizes.element_bytes * sizes.trainable
    loading = max(model_bytes, flattening) if plan.stage < 3 else min(model_bytes, _LOADING_SHARD_BYTES)
    return HostMemory(
        pinned_bytes=pinned * ranks,
        pageable_bytes=pageable * ranks,
        loading_bytes=(loading + pinned + pageable) * ranks if plan.stage == 3 else loading * ranks,
        rounding_bytes=rounding * ranks,
    )


def _offloaded(s: Sizes, plan: Plan) -> tuple[int, int, int]:
    """Pinned and pageable bytes of one rank, and how many of the pinned ones are rounding.

    Blocks that are pinned are rounded, unless ``pin_memory`` is off.
    """
    if plan.stage < 3:
        blocks, pageable = _offloaded_before_stage_3(s, plan)
    else:
        blocks, pageable = _offloaded_at_stage_3(s, plan)
    locked = _locked_bytes(s, plan)
    pins = s.release.pins_by_default if plan.pin_memory is None else plan.pin_memory
    always = {"master"} if s.release.pins_masters_always else set()
    rounded = {name: block for name, block in blocks.items() if pins or name in always}
    # weights that train are pinned whatever the optimizer's key says
    rounded["weights"] = (_weights_bytes(s, plan), 1)
    frozen = _frozen_bytes(s, plan)
    apart = _pinned_apart(s, frozen) if pins else 0
    pinned = sum(count * next_power_of_two(size) for size, count in rounded.values() if size) + apart
    rounding = pinned - sum(count * size for size, count in rounded.values()) - (frozen if pins else 0)
    others = sum(size * count for name, (size, count) in blocks.items() if name not in rounded)
    return pinned + locked, pageable + others + (0 if pins else frozen), rounding


def _weights_bytes(s: Sizes, plan: Plan) -> int:
    """Offloaded weights in host memory in one block: those that train, or beside NVMe up to ``max_in_cpu`` elements.

    zero/stage3.py: _create_param_groups_fp16_flat_cpu_memory.
    """
    if plan.offload_param == "none" or plan.stage < 3:
        return 0
    if plan.offload_param == "nvme":
        return s.element_bytes * min(s.shard + s.frozen_shard, _MAX_IN_CPU)
    return s.element_bytes * s.shard


def _frozen_bytes(s: Sizes, plan: Plan) -> int:
    """Frozen weights that offload to the CPU leaves where zero.Init put them, each tensor in a block of its own."""
    return s.element_bytes * s.frozen_shard if plan.offload_param == "cpu" and plan.stage == _PARAMETER_STAGE else 0


def _pinned_apart(s: Sizes, num_bytes: int) -> int:
    return round(s.apart * num_bytes)


def _offloaded_before_stage_3(s: Sizes, plan: Plan) -> tuple[Blocks, int]:
    """zero/stage_1_and_2.py: fp32 master, fp32 gradients, 16-bit staging, the largest tensor; the moments.

    Accumulating at stage 2 keeps the accumulated gradients too. Any device is taken as the CPU.
    """
    if plan.offload_optimizer == "none":
        return {}, 0
    b = s.element_bytes
    accumulates = plan.stage == 2 and plan.gradient_accumulation_steps > 1
    return {
        "master": (MASTER_BYTES * s.shard, 1),
        "gradients": (_GRADIENT_BYTES * s.shard, 1),
        "staging": (b * s.shard if s.release.stages_offloaded_weights else 0, 1),
        "largest": (b * s.largest, 1),
        "accumulated": (b * s.touched if accumulates else 0, 1),
    }, s.optimizer.states_bytes(s.shard)


def _offloaded_at_stage_3(s: Sizes, plan: Plan) -> tuple[Blocks, int]:
    """zero/stage3.py: a block of fp32 gradients for each sub-group, one of 16-bit gradients; masters and moments."""
    if plan.offload_optimizer == "none":
        return {}, 0
    blocks = {"accumulated": (s.gradient_bytes * s.shard, 1)}
    if plan.offload_optimizer == "nvme":
        return blocks, 0
    blocks["gradients"] = (_GRADIENT_BYTES * s.sub_group, s.num_sub_groups)
    on_host = s.shard - s.on_gpu
    return blocks, MASTER_BYTES * on_host + s.optimizer.states_bytes(on_host)


def _locked_bytes(s: Sizes, plan: Plan) -> int:
    """What the NVMe swappers lock, unrounded: buffers of a sub-group for masters and states, of a shard for weights.

    swap_tensor/optimizer_utils.py: OptimizerSwapper; partitioned_param_swapper.py: AsyncPartitionedParameterSwapper.
    """
    optimizer = plan.nvme_optimizer_buffers * MASTER_BYTES * s.sub_group if plan.offload_optimizer == "nvme" else 0
    params = s.element_bytes * plan.nvme_param_buffer_elements if plan.offload_param == "nvme" else 0
    return (optimizer + params) if plan.stage == 3 else 0


def nvme_bytes(sizes: Sizes, cluster: Cluster, plan: Plan) -> int:
    """Bytes on one node's NVMe: fp32 master, optimizer tensors and gradients; 16-bit weights if offloaded there."""
    per_rank = 0
    if plan.offload_optimizer == "nvme":
        per_rank += (MASTER_BYTES + _GRADIENT_BYTES) * sizes.shard + sizes.optimizer.states_bytes(sizes.shard)
    if plan.offload_param == "nvme":
        per_rank += sizes.element_bytes * sizes.shard
    return per_rank * cluster.gpus_per_node


def checkpoint_bytes(sizes: Sizes, cluster: Cluster) -> int:
    """One DeepSpeed checkpoint of the whole job: weights, fp32 master and optimizer tensors of all its parts.

    8.03e9 parameters with Adam in bf16: 112.4e9.
    """
    master = 0 if sizes.element_bytes == MASTER_BYTES else MASTER_BYTES
    states = master * sizes.trainable + sizes.optimizer.states_bytes(sizes.trainable)
    return (sizes.element_bytes * sizes.total + states) * (cluster.num_gpus // sizes.world_size)
