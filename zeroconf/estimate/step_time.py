"""Seconds of one optimizer step: compute, exposed communication, offload, optimizer.

Shape of the model: ``compute / efficiency + exposed communication + offload + optimizer``. For DeepSpeed, adding
communication without overlap fits published runs best (an exposure of 1: Azure 175B-2T, Jean Zay 24-52B,
DeepSpeed PR#1453), so that is the prediction; the low end hides 70 % of what compute can hide.
"""

from __future__ import annotations

from typing import Final

from zeroconf.estimate.mixtures import idle_parameters
from zeroconf.estimate.sizes import MASTER_BYTES, Sizes
from zeroconf.types import Cluster, Collective, ModelSpec, Plan, StepTime, Traffic, Workload

# share of the peak that eager attention's unfused kernels reach of the fused ones; assumed
EAGER_FACTOR: Final = 0.8
# share of hideable communication that stays exposed at best (DeepSpeed PR#1453 prefers 0.5, FSDP 0.1)
LOW_EXPOSURE: Final = 0.3
# compute efficiency is known to about 10 % (llm-foundry single-node rows: 4.9 % mean error, worst 12 %)
COMPUTE_ERROR: Final = 0.1
# fp32 parameters updated per second and host with CPU Adam, cast and copy included: 1.2e9 to 2.2e9 in field
# reports (DeepSpeed PR#735, DeepSpeed#6834, ZenFlow blog)
CPU_ADAM_PER_SECOND: Final = 1.7e9
CPU_ADAM_LOW_PER_SECOND: Final = 1.2e9
# torch's AdamW on a host: measured with torch 2.13 on two cores, 0.11e9 (busy) to 0.28e9
TORCH_ADAM_PER_SECOND: Final = 0.28e9
TORCH_ADAM_LOW_PER_SECOND: Final = 0.11e9
# share of the host link that gathers of offloaded parameters reach: many small copies, each waited for. Median of
# bigscience's Jean Zay runs with everything on the CPU (25B, 52B, 97B on V100: 58, 114, 222 s per step), which
# lie between 0.014 and 0.08
PARAM_UPLOAD_SHARE: Final = 0.044
# on one GPU parameters are copied whole; assumed
WHOLE_UPLOAD_SHARE: Final = 0.5
# bytes that Adam reads and writes per parameter on the GPU: gradient, master, momentum, variance, weight
OPTIMIZER_PASS_BYTES: Final = 28


def forward_flops(model: ModelSpec, workload: Workload, micro_batch_size: int) -> float:
    """FLOPs of one forward pass of one micro batch: 2 per parameter that computes a token, and the attention scores.

    PaLM (arXiv 2204.02311) appendix B counts 12 L h s per token for forward and backward: 4 L h s forward.
    Llama-3-8B, 4096 tokens: 2 * 8.03e9 * 4096 + 4 * 32 * 4096 * 4096 * 4096 = 7.46e13.
    """
    tokens = workload.local_sequence_length * micro_batch_size
    scores = 4 * model.num_layers * model.query_size * workload.sequence_length * tokens
    return 2.0 * (model.num_active_parameters + idle_parameters(model)) * tokens + scores


def backward_factor(sizes: Sizes, *, checkpointing: bool) -> float:
    """Backward over forward: 1 for the gradient of activations, 1 for that of weights, 1 to compute forward again.

    Frozen weights (LoRA) need no weight gradient.
    """
    return 1 + sizes.trainable / sizes.unpacked + (1 if checkpointing else 0)


def flops_per_second(model: ModelSpec, cluster: Cluster, workload: Workload) -> float:
    """What one GPU reaches: peak x max_efficiency x h / (h + h_half), fitted on llm-foundry's single-node rows.

    A100 at h = 4096: 312e12 * 0.70 * 4096 / 4476 = 199.9e12.
    """
    gpu = cluster.gpu
    peak = gpu.single_flops_per_second if workload.precision == "fp32" else gpu.half_flops_per_second
    width = model.hidden_size / (model.hidden_size + gpu.half_efficiency_hidden_size)
    framework = EAGER_FACTOR if workload.attention == "eager" else 1.0
    return peak * gpu.max_efficiency * width * framework


def step_time(
    model: ModelSpec, cluster: Cluster, workload: Workload, plan: Plan, traffic: Traffic, sizes: Sizes
) -> StepTime:
    """One optimizer step. Seconds per sample divide by the plan's global batch."""
    steps = plan.gradient_accumulation_steps
    forward = forward_flops(model, workload, plan.micro_batch_size)
    factor = 1 + backward_factor(sizes, checkpointing=plan.activation_checkpointing)
    rate = flops_per_second(model, cluster, workload)
    beside = 2.0 * sizes.reference * workload.local_sequence_length * plan.micro_batch_size
    compute = steps * (forward * factor + beside) / rate
    communication = traffic.seconds
    offload, slow_offload = _offload_seconds(sizes, cluster, workload, plan)
    optimizer = 0.0
    if plan.offload_optimizer == "none":
        optimizer = OPTIMIZER_PASS_BYTES * sizes.shard / cluster.gpu.memory_bandwidth_bytes_per_second
    total = compute + communication + offload + optimizer
    hidden = (1 - LOW_EXPOSURE) * min(compute, communication)
    low = compute * (1 - COMPUTE_ERROR) + communication - hidden + offload + optimizer
    slow_wire = sum(_slow_seconds(collective, cluster) for collective in traffic.per_collective)
    high = compute * (1 + COMPUTE_ERROR) + slow_wire + slow_offload + optimizer
    samples = plan.micro_batch_size * steps * cluster.num_gpus // workload.ranks_per_sample
    idle = 2.0 * idle_parameters(model) * workload.local_sequence_length * plan.micro_batch_size
    useful = steps * (forward - idle) * (1 + backward_factor(sizes, checkpointing=False))
    peak = cluster.gpu.single_flops_per_second if workload.precision == "fp32" else cluster.gpu.half_flops_per_second
    return StepTime(
        compute_seconds=compute,
        communication_seconds=communication,
        exposed_communication_seconds=communication,
        offload_seconds=offload,
        optimizer_seconds=optimizer,
        total_seconds=total,
        low_seconds=low,
        high_seconds=high,
        seconds_per_sample=total / samples,
        tokens_per_second_per_gpu=samples * workload.sequence_length / total / cluster.num_gpus,
        model_flops_utilization=useful / total / peak,
    )


def _slow_seconds(collective: Collective, cluster: Cluster) -> float:
    """The collective at the pessimistic end of its link."""
    link = cluster.network if cluster.network and collective.link == cluster.network.name else cluster.intra_node
    wire = collective.bytes / link.bandwidth_bytes_per_second
    return collective.seconds - wire + collective.bytes / link.low_bandwidth_bytes_per_second


def _offload_seconds(s: Sizes, cluster: Cluster, workload: Workload, plan: Plan) -> tuple[float, float]:
    """CPU Adam, PCIe and NVMe of one step: predicted, and with a slow host.

    PCIe per rank (stage_1_and_2.py, stage3.py): stages 1 and 2 send 4 bytes of gradient per shard element down
    and 2 of weights up; stage 3 moves its 16-bit gradients in every micro step; offloaded parameters go up twice
    in every micro step. NVMe: master, moments and gradients are read, and written back. The script's own optimizer
    is torch's on the host, not DeepSpeed's CPU Adam.
    """
    if plan.offload_optimizer == "none":
        return 0.0, 0.0
    steps, b = plan.gradient_accumulation_steps, s.element_bytes
    moved: float = (4 + b) * s.shard
    if plan.stage == 3:
        moved += 2 * steps * b * s.shard
    elif plan.stage == 2 and steps > 1:
        moved += (2 * steps - 1) * b * s.touched
    if plan.offload_param != "none":
        share = PARAM_UPLOAD_SHARE if s.world_size > 1 else WHOLE_UPLOAD_SHARE
        moved += 2 * steps * b * (s.shard + s.frozen_shard) / share
    pcie = moved / cluster.gpu.host_link_bytes_per_second
    per_node = s.shard * cluster.gpus_per_node
    nvme = 0.0
    if plan.offload_optimizer == "nvme" and cluster.nvme is not None:
        # read, and written back
        moved_nvme = (MASTER_BYTES + 4) * per_node + s.optimizer.states_bytes(per_node)
        nvme = moved_nvme / cluster.nvme.read_bytes_per_second + moved_nvme / cluster.nvme.write_bytes_per_second
    fixed = pcie + nvme
    rate, low_rate = CPU_ADAM_PER_SECOND, CPU_ADAM_LOW_PER_SECOND
    if workload.client_optimizer:
        rate, low_rate = TORCH_ADAM_PER_SECOND, TORCH_ADAM_LOW_PER_SECOND
    return per_node / rate + fixed, per_node / low_rate + fixed
