"""Whole steps against DeepSpeed 0.19.8 run on fake tensors: Llama-3-8B as rank 0 of 8, 4096 tokens.

Measured there (GiB at the forward / backward peak): stage 2, reduce bucket 1e6; stage 3, reduce bucket 5e7, live
limit 1e6, prefetch 5e5. CUDA context and NCCL are not in them.
"""

from __future__ import annotations

import pytest
from builders import LLAMA_3_8B, cluster, plan, workload

from zeroconf.estimate.estimate import estimate
from zeroconf.inputs.model import read_model
from zeroconf.units import GIB

STAGE_2 = {"reduce_bucket_size": 1_000_000}
STAGE_3 = {
    "reduce_bucket_size": 50_000_000,
    "max_live_parameters": 1_000_000,
    "max_reuse_distance": 0,
    "prefetch_bucket_size": 500_000,
    "param_persistence_threshold": 1000,
}


@pytest.mark.parametrize(
    ("stage", "attention", "checkpointing", "backward_gib"),
    [
        (2, "sdpa", False, 56.690),
        (2, "sdpa", True, 33.174),
        (2, "eager", False, 154.175),
        (3, "sdpa", False, 46.544),
        (3, "sdpa", True, 23.027),
        (2, "eager", True, 34.564),
    ],
)
def test_backward_peak_of_llama_3_8b(stage, attention, checkpointing, backward_gib):
    chosen = plan(stage, activation_checkpointing=checkpointing, **(STAGE_2 if stage == 2 else STAGE_3))
    gpu = estimate(LLAMA_3_8B, cluster(), workload(attention=attention), chosen).gpu
    backward = gpu.moments["backward"]
    assert (backward.total - backward.overhead) / GIB == pytest.approx(backward_gib, rel=0.002)


def test_parts_add_up_and_the_peak_lies_in_its_bounds():
    gpu = estimate(LLAMA_3_8B, cluster(), workload(), plan(2)).gpu
    parts = gpu.peak
    assert gpu.peak_allocated_bytes == (
        parts.parameters
        + parts.gradients
        + parts.optimizer_states
        + parts.buffers
        + parts.gathered_parameters
        + parts.activations
        + parts.logits
        + parts.temporaries
        + parts.overhead
    )
    assert gpu.low_bytes < gpu.peak_allocated_bytes < gpu.high_bytes
    assert gpu.peak_allocated_bytes == max(moment.total for moment in gpu.moments.values())


@pytest.mark.parametrize(("stage", "states_gib"), [(0, 104.3), (1, 35.9), (2, 24.4), (3, 13.0)])
def test_textbook_bytes_stand_beside(stage, states_gib):
    seven = estimate(_seven_billion(), cluster(), workload(), plan(stage)).gpu
    assert seven.textbook_bytes / GIB == pytest.approx(states_gib, abs=0.06)
    assert seven.peak_allocated_bytes > seven.textbook_bytes


def _seven_billion():
    from dataclasses import replace  # noqa: PLC0415

    return replace(LLAMA_3_8B, num_parameters=7 * 10**9, num_active_parameters=7 * 10**9)


def test_offload_takes_states_off_the_card_and_puts_them_on_the_host():
    on_gpu = estimate(LLAMA_3_8B, cluster(), workload(), plan(2))
    on_host = estimate(LLAMA_3_8B, cluster(), workload(), plan(2, offload_optimizer="cpu"))
    assert on_host.gpu.moments["step"].optimizer_states == 0
    assert on_host.gpu.peak_allocated_bytes < on_gpu.gpu.peak_allocated_bytes
    # master and gradients 4 bytes each, staging 2, moments 8 per parameter; the pinned ones in powers of two
    lower = 18 * LLAMA_3_8B.num_parameters
    assert lower < on_host.host.pinned_bytes + on_host.host.pageable_bytes < 2 * lower
    assert on_gpu.host.pinned_bytes == 0


def test_stage_3_with_everything_offloaded_keeps_only_what_it_gathers():
    offloaded = estimate(LLAMA_3_8B, cluster(), workload(), plan(3, offload_optimizer="cpu", offload_param="cpu"))
    step = offloaded.gpu.moments["step"]
    assert step.optimizer_states == step.gradients == 0
    assert step.parameters < 0.01 * LLAMA_3_8B.num_parameters


def test_nvme_holds_16_bytes_per_parameter():
    plan_nvme = plan(3, offload_optimizer="nvme", offload_param="cpu")
    assert estimate(LLAMA_3_8B, cluster(), workload(), plan_nvme).nvme_bytes == pytest.approx(
        16 * LLAMA_3_8B.num_parameters, rel=1e-6
    )


@pytest.mark.parametrize(("gpus", "gib"), [(1, 21.65), (2, 17.38), (8, 14.19)])
def test_offload_keeps_large_gradients_of_its_part_where_they_accumulate(gpus, gib):
    """Backward's peak of Llama-2-7B in dry runs of DeepSpeed 0.19.8: two micro steps of 4 x 512 tokens, recomputed."""
    offload = {"offload_optimizer": "cpu", "gradient_accumulation_steps": 2, "reduce_bucket_size": 16_777_216}
    chosen = plan(2, micro_batch_size=4, activation_checkpointing=True, overlap_comm=True, **offload)
    place, work = cluster(gpus_per_node=gpus), workload(sequence_length=512)
    backward = estimate(read_model("llama-2-7b"), place, work, chosen).gpu.moments["backward"]
    assert (backward.total - backward.overhead) / GIB == pytest.approx(gib, rel=0.01)


@pytest.mark.parametrize(("gpus", "gib"), [(1, 30.51), (4, 22.01)])
def test_a_block_at_work_beside_large_gradients_that_offload_keeps(gpus, gib):
    """MPT-7B, whose queries, keys and values are one matrix, in dry runs of DeepSpeed 0.19.8: 4 x 2,048 tokens."""
    offload = {"offload_optimizer": "cpu", "gradient_accumulation_steps": 2, "reduce_bucket_size": 16_777_216}
    chosen = plan(2, micro_batch_size=4, activation_checkpointing=True, overlap_comm=True, **offload)
    place, work = cluster(gpus_per_node=gpus), workload(sequence_length=2048, precision="fp16", attention="sdpa")
    found = estimate(read_model("mpt-7b"), place, work, chosen).gpu.moments["backward"]
    assert (found.total - found.overhead) / GIB == pytest.approx(gib, rel=0.02)


@pytest.mark.parametrize(("threshold", "gib"), [(10_000, 8.09), (5_000_000, 8.72), (30_000_000, 13.25)])
def test_every_parameter_under_the_threshold_stays(threshold, gib):
    """Backward's peak of Qwen2.5-3B on 8 GPUs in dry runs of DeepSpeed 0.19.8: norms, keys and values, all matrices."""
    limits = {"max_live_parameters": 100_000_000, "max_reuse_distance": 100_000_000}
    buckets = {"prefetch_bucket_size": 10_000_000, "reduce_bucket_size": 10_000_000}
    chosen = plan(3, param_persistence_threshold=threshold, **limits, **buckets)
    work = workload(sequence_length=128, attention="sdpa")
    found = estimate(read_model("qwen2.5-3b"), cluster(), work, chosen).gpu.moments["backward"]
    assert (found.total - found.overhead) / GIB == pytest.approx(gib, rel=0.01)
