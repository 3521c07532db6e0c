"""Seconds of one optimizer step that offload adds: CPU Adam, PCIe and NVMe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.estimate.sizes import MASTER_BYTES

if TYPE_CHECKING:
    from zeroconf.estimate.sizes import Sizes
    from zeroconf.rates import Rates
    from zeroconf.types import Cluster, Plan, Workload


def upload_seconds(s: Sizes, cluster: Cluster, plan: Plan, rates: Rates) -> tuple[float, float]:
    """Seconds that offloaded parameters take to the GPU: predicted, and with a slow host.

    A rank's share goes up twice in every micro step, for forward and for backward.
    """
    if plan.offload_param == "none":
        return 0.0, 0.0
    uploaded = 2 * plan.gradient_accumulation_steps * s.element_bytes * (s.shard + s.frozen_shard)
    seconds = uploaded / cluster.gpu.host_link_bytes_per_second
    return seconds / rates.upload_share, seconds / rates.low_upload_share


def optimizer_seconds(s: Sizes, cluster: Cluster, workload: Workload, plan: Plan, rates: Rates) -> tuple[float, float]:
    """Seconds of an offloaded optimizer: predicted, and with a slow host.

    The script's own optimizer is torch's, not CPU Adam.
    """
    if plan.offload_optimizer == "none":
        return 0.0, 0.0
    per_node = s.shard * cluster.gpus_per_node
    fixed = _optimizer_bytes(s, plan) / cluster.gpu.host_link_bytes_per_second + _nvme_seconds(s, cluster, plan)
    rate, low_rate = rates.cpu_adam_per_second, rates.low_cpu_adam_per_second
    if workload.client_optimizer:
        rate, low_rate = rates.torch_adam_per_second, rates.low_torch_adam_per_second
    return per_node / rate + fixed, per_node / low_rate + fixed


def _optimizer_bytes(s: Sizes, plan: Plan) -> int:
    """What one rank moves for the optimizer (stage_1_and_2.py, stage3.py).

    Stages 1 and 2 send 4 bytes of gradient per shard element down and 2 of weights up; stage 3 moves its 16-bit
    gradients in every micro step.
    """
    steps, b = plan.gradient_accumulation_steps, s.element_bytes
    moved = (4 + b) * s.shard
    if plan.stage == 3:
        moved += 2 * steps * b * s.shard
    elif plan.stage == 2 and steps > 1:
        moved += (2 * steps - 1) * b * s.touched
    return moved


def _nvme_seconds(s: Sizes, cluster: Cluster, plan: Plan) -> float:
    """Master, moments and gradients of a node are read, and written back."""
    if plan.offload_optimizer != "nvme" or cluster.nvme is None:
        return 0.0
    per_node = s.shard * cluster.gpus_per_node
    moved = (MASTER_BYTES + 4) * per_node + s.optimizer.states_bytes(per_node)
    return moved / cluster.nvme.read_bytes_per_second + moved / cluster.nvme.write_bytes_per_second
