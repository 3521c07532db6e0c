"""Seconds of one optimizer step: the slower of GPU and host, exposed communication, offload, optimizer; and their band.

The GPU waits for DeepSpeed's communication: adding it without overlap fits published runs best (an exposure of 1), so
that is the prediction; the low end of the band hides some of what another stream could hide.

What the band allows for has nothing in common: the card's speed, the processor's, how much is hidden, the link, the
host's memory. So the causes add as independent errors do, by their squares; each also stands alone at its bound.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from zeroconf.estimate.compute import (
    backward_factor,
    forward_flops,
    gpu_seconds,
    hook_seconds,
    host_seconds,
    peak_flops,
)
from zeroconf.estimate.offload_time import optimizer_seconds, upload_seconds
from zeroconf.rates import RATES
from zeroconf.types import Cluster, Collective, ModelSpec, Plan, StepTime, Traffic, Workload

if TYPE_CHECKING:
    from zeroconf.estimate.sizes import Sizes
    from zeroconf.rates import Rates

# bytes that Adam reads and writes per parameter on the GPU: gradient, master, momentum, variance, weight
_OPTIMIZER_PASS_BYTES: Final = 28
# bytes that DeepSpeed's quantizer reads and writes per gathered weight: 8 bits to fp16, and that again to bf16
_UNPACKED_BYTES: Final = {"fp16": 3, "bf16": 7, "fp32": 9}


def step_time(
    model: ModelSpec,
    cluster: Cluster,
    workload: Workload,
    plan: Plan,
    traffic: Traffic,
    sizes: Sizes,
    rates: Rates = RATES,
) -> StepTime:
    """One optimizer step. Seconds per sample divide by the plan's global batch.

    ``host_seconds`` are those that the GPU waits for the host: what hooks and launches take beyond the GPU's own work.
    """
    steps = plan.gradient_accumulation_steps
    compute = steps * gpu_seconds(model, cluster.gpu, workload, plan, sizes, rates)
    compute += _unpacking_seconds(traffic, cluster, workload)
    launching = steps * host_seconds(model, workload, plan, rates)
    hooks = hook_seconds(model, workload, plan, rates)
    exposed = rates.exposure * traffic.seconds
    upload, slow_upload = upload_seconds(sizes, cluster, plan, rates)
    update, slow_update = optimizer_seconds(sizes, cluster, workload, plan, rates)
    offload = upload + update
    optimizer = 0.0
    if plan.offload_optimizer == "none":
        optimizer = _OPTIMIZER_PASS_BYTES * sizes.shard / cluster.gpu.memory_bandwidth_bytes_per_second
    waiting = max(0.0, launching - compute) + hooks
    total = compute + waiting + exposed + offload + optimizer

    def work(sign: int) -> float:
        """Seconds of card and host with both off by their errors, to the slow side or the fast one."""
        host = 1 + sign * rates.host_error
        return max(compute * (1 + sign * rates.compute_error), launching * host) + hooks * host

    expected = compute + waiting
    hidden = (1 - rates.low_exposure) * min(compute, rates.exposure * _hideable_seconds(plan, traffic))
    slow_wire = rates.exposure * sum(_slow_seconds(collective, cluster) for collective in traffic.per_collective)
    low = total - math.hypot(expected - work(-1), hidden)
    high = total + math.hypot(work(1) - expected, slow_wire - exposed, slow_upload + slow_update - offload)

    samples = plan.micro_batch_size * steps * cluster.num_gpus // workload.ranks_per_sample
    useful = steps * forward_flops(model, workload, plan.micro_batch_size) * (1 + backward_factor(sizes))
    return StepTime(
        compute_seconds=compute,
        host_seconds=waiting,
        communication_seconds=traffic.seconds,
        exposed_communication_seconds=exposed,
        offload_seconds=offload,
        upload_seconds=upload,
        optimizer_seconds=optimizer,
        total_seconds=total,
        low_seconds=low,
        high_seconds=high,
        seconds_per_sample=total / samples,
        tokens_per_second_per_gpu=samples * workload.sequence_length / total / cluster.num_gpus,
        model_flops_utilization=useful / total / peak_flops(cluster.gpu, workload),
    )


def _unpacking_seconds(traffic: Traffic, cluster: Cluster, workload: Workload) -> float:
    """What gathered 8-bit weights take at the memory's rate, at the least: each is unpacked by every rank.

    runtime/zero/partition_parameters.py, CUDAQuantizer.dequantize: kernels write fp16, which is then cast. 16e9 weights
    gathered in a step in bf16 on an A100: 16e9 x 7 / 2.04e12 = 0.055 s. Packing a rank's own part is left out.
    """
    gathers = (one for one in traffic.per_collective if one.collective == "all-gather")
    unpacked = sum(one.payload_elements for one in gathers if one.element_bytes == 1)
    return unpacked * _UNPACKED_BYTES[workload.precision] / cluster.gpu.memory_bandwidth_bytes_per_second


def _hideable_seconds(plan: Plan, traffic: Traffic) -> float:
    """Communication that can run beside compute: stage 3's prefetches, and reductions with ``overlap_comm``.

    Stages 0 and 1 reduce after backward, and updated weights are gathered after the step (stage_1_and_2.py).
    """
    if plan.stage == 3:
        return traffic.seconds
    if plan.stage < 2 or not plan.overlap_comm:
        return 0.0
    return sum(one.seconds for one in traffic.per_collective if one.collective != "all-gather")


def _slow_seconds(collective: Collective, cluster: Cluster) -> float:
    """The collective at the pessimistic end of its link."""
    link = cluster.network if cluster.network and collective.link == cluster.network.name else cluster.intra_node
    wire = collective.bytes / link.bandwidth_bytes_per_second
    return collective.seconds - wire + collective.bytes / link.low_bandwidth_bytes_per_second
