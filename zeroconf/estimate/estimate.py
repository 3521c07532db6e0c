"""What one plan costs on one cluster: memory, host, traffic, time, verdict."""

from __future__ import annotations

from dataclasses import replace

from zeroconf.estimate.host import checkpoint_bytes, host_memory, nvme_bytes
from zeroconf.estimate.memory import gpu_memory, verdict
from zeroconf.estimate.shares import tensor_share
from zeroconf.estimate.sizes import NEWEST
from zeroconf.estimate.sizes import sizes as sizes_of
from zeroconf.estimate.step_time import step_time
from zeroconf.estimate.traffic import traffic as traffic_of
from zeroconf.rates import RATES, Rates
from zeroconf.types import Cluster, Estimate, ModelSpec, Plan, Versions, Workload


def estimate(
    model: ModelSpec,
    cluster: Cluster,
    workload: Workload,
    plan: Plan,
    versions: Versions = NEWEST,
    rates: Rates = RATES,
) -> Estimate:
    """Every part of the cost in one release of DeepSpeed; pure arithmetic, microseconds."""
    model = tensor_share(model, workload.tensor_parallel_size)
    # Transformers builds no quantized model inside zero.Init (modeling_utils.py: get_init_context)
    built = replace(plan, zero_init=False) if workload.quantize else plan
    sizes = sizes_of(model, cluster, workload, built, versions)
    gpu = gpu_memory(model, cluster, workload, built, sizes)
    traffic = traffic_of(model, cluster, workload, plan, sizes)
    capacity = cluster.gpu.memory_bytes
    return Estimate(
        plan=plan,
        gpu=gpu,
        host=host_memory(sizes, cluster, plan),
        nvme_bytes=nvme_bytes(sizes, cluster, plan),
        checkpoint_bytes=checkpoint_bytes(sizes, cluster),
        traffic=traffic,
        step=step_time(model, cluster, workload, plan, traffic, sizes, rates),
        capacity_bytes=capacity,
        verdict=verdict(gpu, capacity, workload.headroom),
    )
