"""Host memory and NVMe per node, and what a checkpoint takes on disk, in bytes."""

from __future__ import annotations

from typing import Final

from zeroconf.estimate.sizes import MASTER_BYTES, Sizes
from zeroconf.types import Cluster, HostMemory, Plan
from zeroconf.units import next_power_of_two

_GRADIENT_BYTES: Final = 4
# buffers that the NVMe swapper locks: offload_config.py, DeepSpeedZeroOffloadOptimizerConfig.buffer_count
_NVME_BUFFERS: Final = 4
# Transformers reads checkpoints shard by shard under zero.Init; its default shard is 5 GB
_LOADING_SHARD_BYTES: Final = 5 * 10**9


def host_memory(sizes: Sizes, cluster: Cluster, plan: Plan) -> HostMemory:
    """One node's host memory: what offload keeps there, and what loading the weights takes.

    Pinned blocks are rounded to the next power of two (PyTorch's CachingHostAllocator) and come per
    parameter group at stages 1 and 2, per sub-group at stage 3. 8.03e9 parameters, 8 GPUs on a node, stage 2
    with the optimizer on the CPU: 4.0e9-byte master and gradient blocks become 4.29e9.
    """
    ranks = cluster.gpus_per_node
    pinned, pageable = _offloaded(sizes, plan)
    model_bytes = sizes.element_bytes * sizes.total
    loading = model_bytes if plan.stage < 3 else min(model_bytes, _LOADING_SHARD_BYTES)
    return HostMemory(
        pinned_bytes=pinned * ranks,
        pageable_bytes=pageable * ranks,
        loading_bytes=(loading + pinned + pageable) * ranks if plan.stage == 3 else loading * ranks,
    )


def _offloaded(s: Sizes, plan: Plan) -> tuple[int, int]:
    """Pinned and pageable bytes of one rank."""
    if plan.offload_optimizer == "none":
        return 0, 0
    b = s.element_bytes
    moments = s.state_bytes * s.shard
    if plan.stage < 3:
        # zero/stage_1_and_2.py: fp32 master, fp32 gradients, 16-bit staging, and (accumulating at stage 2) the
        # accumulated gradients; zero-copy temporaries of the largest tensor
        blocks = [MASTER_BYTES * s.shard, _GRADIENT_BYTES * s.shard, b * s.shard, b * s.largest]
        if plan.stage == 2 and plan.gradient_accumulation_steps > 1:
            blocks.append(b * s.touched)
        return sum(map(next_power_of_two, blocks)), moments
    groups = -(-s.shard // s.sub_group)
    gradients = groups * next_power_of_two(_GRADIENT_BYTES * s.sub_group) + next_power_of_two(b * s.shard)
    weights = next_power_of_two(b * (s.shard + s.frozen_shard)) if plan.offload_param != "none" else 0
    if plan.offload_optimizer == "nvme":
        swap = _NVME_BUFFERS * MASTER_BYTES * s.sub_group
        return swap + next_power_of_two(b * s.shard) + weights, 0
    return gradients + weights, MASTER_BYTES * s.shard + moments


def nvme_bytes(sizes: Sizes, cluster: Cluster, plan: Plan) -> int:
    """Bytes on one node's NVMe: fp32 master, optimizer tensors and gradients; 16-bit weights if offloaded there."""
    per_element = 0
    if plan.offload_optimizer == "nvme":
        per_element += MASTER_BYTES + sizes.state_bytes + _GRADIENT_BYTES
    if plan.offload_param == "nvme":
        per_element += sizes.element_bytes
    return per_element * sizes.shard * cluster.gpus_per_node


def checkpoint_bytes(sizes: Sizes) -> int:
    """One DeepSpeed checkpoint of the whole job: weights, fp32 master and optimizer tensors.

    8.03e9 parameters with Adam in bf16: 112.4e9.
    """
    master = 0 if sizes.element_bytes == MASTER_BYTES else MASTER_BYTES
    return sizes.element_bytes * sizes.total + (master + sizes.state_bytes) * sizes.trainable
