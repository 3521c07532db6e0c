from __future__ import annotations

import math
from dataclasses import replace

import pytest
from builders import LLAMA_3_8B, cluster, plan, workload
from hypothesis import given
from hypothesis import strategies as st

from zeroconf.estimate.compute import forward_flops, gpu_seconds, hook_seconds, host_seconds
from zeroconf.estimate.estimate import estimate
from zeroconf.estimate.mixtures import idle_parameters
from zeroconf.estimate.sizes import NEWEST, sizes
from zeroconf.inputs import catalogue
from zeroconf.inputs.cluster import read_cluster
from zeroconf.inputs.lora import with_lora
from zeroconf.rates import RATES
from zeroconf.types import Cluster

STAGES = st.sampled_from((0, 1, 2, 3))
STEPS = st.sampled_from((1, 4, 16))


def seconds_of_gpu(model=LLAMA_3_8B, place=None, work=None, chosen=None):
    place, work, chosen = place or cluster(), work or workload(), chosen or plan(2)
    return gpu_seconds(model, place.gpu, work, chosen, sizes(model, place, work, chosen, NEWEST), RATES)


def two_nodes(bandwidth):
    found = read_cluster("2x8xA100-80GB", network="100gbe")
    assert isinstance(found, Cluster)
    assert found.network is not None
    link = replace(found.network, bandwidth_bytes_per_second=bandwidth, low_bandwidth_bytes_per_second=bandwidth / 2)
    return replace(found, network=link)


def test_forward_flops_worked_number():
    assert forward_flops(LLAMA_3_8B, workload(), 1) == pytest.approx(7.03e13, rel=2e-3)


def test_a_tied_vocabulary_is_multiplied_with_and_an_untied_one_once():
    tied = replace(LLAMA_3_8B, tied_embeddings=True)
    difference = forward_flops(tied, workload(), 1) - forward_flops(LLAMA_3_8B, workload(), 1)
    assert difference == pytest.approx(2 * LLAMA_3_8B.embedding_parameters * 4096)


def test_llama_3_8b_on_an_a100_takes_1_1_seconds_for_4096_tokens():
    assert seconds_of_gpu() == pytest.approx(0.908 + 0.180, rel=2e-3)


def test_checkpointing_costs_about_a_third_more_compute():
    plain = estimate(LLAMA_3_8B, cluster(), workload(), plan(2)).step
    checkpointed = estimate(LLAMA_3_8B, cluster(), workload(), plan(2, activation_checkpointing=True)).step
    assert 1.2 < checkpointed.compute_seconds / plain.compute_seconds < 4 / 3
    assert checkpointed.model_flops_utilization < plain.model_flops_utilization


def test_the_sum_of_the_parts_is_the_total():
    for offload in ("none", "cpu"):
        step = estimate(LLAMA_3_8B, cluster(), workload(), plan(2, offload_optimizer=offload)).step
        work = step.compute_seconds + step.host_seconds
        parts = work + step.exposed_communication_seconds + step.offload_seconds + step.optimizer_seconds
        assert step.total_seconds == pytest.approx(parts)
        assert step.low_seconds < step.total_seconds < step.high_seconds


def test_cpu_adam_costs_parameters_over_its_rate_and_the_bus():
    step = estimate(LLAMA_3_8B, cluster(), workload(), plan(2, offload_optimizer="cpu")).step
    shard = LLAMA_3_8B.num_parameters / 8
    assert step.offload_seconds == pytest.approx(LLAMA_3_8B.num_parameters / 1.7e9 + 6 * shard / 22e9, rel=1e-3)


def test_a_mixture_computes_with_its_active_parameters():
    mixture = replace(LLAMA_3_8B, num_active_parameters=LLAMA_3_8B.num_parameters // 4, num_experts=8)
    dense, sparse = (forward_flops(model, workload(), 1) for model in (LLAMA_3_8B, mixture))
    assert sparse < dense / 2


def test_llama_4_computes_every_token_with_all_experts_though_few_are_active():
    scout = catalogue.spec(catalogue.find("llama-4-scout"), "llama-4-scout")
    assert scout.num_active_parameters == 17_172_894_720
    assert idle_parameters(scout) == 48 * 15 * 3 * 5120 * 8192 == scout.num_parameters - scout.num_active_parameters
    sparse = replace(scout, architecture="mixtral")
    assert seconds_of_gpu(scout) > 4 * seconds_of_gpu(sparse)
    # which is no model FLOP: the same work done in more time is a lower share of the peak
    assert forward_flops(scout, workload(), 1) == forward_flops(sparse, workload(), 1)
    dense, active = (
        estimate(model, cluster(), workload(), plan(3)).step.model_flops_utilization for model in (scout, sparse)
    )
    assert dense < active


def test_fp32_is_bound_by_the_fp32_peak():
    assert 10 < seconds_of_gpu(work=workload(precision="fp32")) / seconds_of_gpu() < 16


def test_eager_attention_costs_more_the_longer_the_sequence():
    def ratio(length):
        eager, flash = (
            seconds_of_gpu(work=workload(attention=kind, sequence_length=length)) for kind in ("eager", "flash")
        )
        return eager / flash

    assert 1 < ratio(512) < ratio(4096)


def test_a_small_model_at_stage_3_waits_for_the_host():
    small = replace(LLAMA_3_8B, num_parameters=10**8, num_active_parameters=10**8, hidden_size=256, num_layers=24)
    chosen = plan(3, activation_checkpointing=True)
    # 24 x 4 x 0.57 ms, and 216 fetches of 0.75 ms
    assert host_seconds(small, workload(), chosen, RATES) == pytest.approx(0.217, rel=0.01)
    step = estimate(small, cluster(), workload(sequence_length=256), chosen).step
    assert step.host_seconds > step.compute_seconds


def adapted(**changes):
    return workload(lora_rank=16, trainable_parameters=with_lora(LLAMA_3_8B, 16), **changes)


def test_adapters_on_every_matrix_cost_what_their_inputs_and_outputs_move():
    frozen = replace(adapted(), lora_rank=None)
    more = seconds_of_gpu(work=adapted()) - seconds_of_gpu(work=frozen)
    # 32 x 81,920 inputs and outputs, 20 bytes each at 2039 GB/s, and 16 times as many weights multiplied three times
    moved = 4096 * 32 * 81_920 * 20 / 2039e9
    multiplied = 2 * 4096 * 3 * 16 * 32 * 81_920 / (312e12 * 0.79)
    assert more == pytest.approx(moved + multiplied, rel=1e-3)


def test_adapters_save_a_third_of_the_products_but_not_a_third_of_the_time():
    full, light = seconds_of_gpu(), seconds_of_gpu(work=adapted())
    assert 0.67 < light / full < 0.95


def test_weights_of_4_bits_are_unpacked_in_every_pass():
    def more(checkpointed):
        chosen = plan(2, activation_checkpointing=checkpointed)
        packed, plain = (seconds_of_gpu(work=adapted(quantize=kind), chosen=chosen) for kind in ("nf4", None))
        return packed - plain

    assert more(checkpointed=True) == pytest.approx(1.5 * more(checkpointed=False))
    assert more(checkpointed=False) == pytest.approx(2 * 3.1 * 6.98e9 / 2039e9, rel=0.01)


def test_the_host_launches_adapters_and_hooks_run_over_what_trains():
    chosen = plan(2)
    more = host_seconds(LLAMA_3_8B, adapted(), chosen, RATES) - host_seconds(LLAMA_3_8B, workload(), chosen, RATES)
    assert more == pytest.approx(32 * 7 * 3 * 0.07e-3)
    hooks = [hook_seconds(LLAMA_3_8B, work, chosen, RATES) for work in (adapted(), workload())]
    assert hooks[0] / hooks[1] == pytest.approx(14 / 9)


def test_causes_of_the_band_add_by_their_squares():
    slow = two_nodes(2e9)
    step = estimate(LLAMA_3_8B, slow, workload(), plan(3)).step
    work = step.compute_seconds * RATES.compute_error
    hidden = (1 - RATES.low_exposure) * min(step.compute_seconds, step.communication_seconds)
    below = step.total_seconds - step.low_seconds
    assert max(work, hidden) < below < work + hidden
    assert step.low_seconds < step.total_seconds < step.high_seconds


def test_one_gpu_has_no_communication():
    alone = read_cluster("1xA100-80GB")
    assert isinstance(alone, Cluster)
    for stage in range(4):
        step = estimate(LLAMA_3_8B, alone, workload(), plan(stage)).step
        assert step.communication_seconds == step.exposed_communication_seconds == 0


@given(stage=STAGES, steps=STEPS, bandwidth=st.floats(1e7, 4e11), factor=st.floats(1.01, 100))
def test_time_falls_as_bandwidth_grows(stage, steps, bandwidth, factor):
    chosen = plan(stage, gradient_accumulation_steps=steps)
    slow, fast = (
        estimate(LLAMA_3_8B, two_nodes(rate), workload(), chosen).step for rate in (bandwidth, bandwidth * factor)
    )
    assert fast.total_seconds <= slow.total_seconds
    assert fast.low_seconds <= slow.low_seconds
    assert fast.high_seconds <= slow.high_seconds


@given(one=STAGES, other=STAGES, steps=STEPS)
def test_on_a_slow_link_times_are_as_the_bytes_sent(one, other, steps):
    place = two_nodes(1e3)
    first, second = (
        estimate(LLAMA_3_8B, place, workload(), plan(stage, gradient_accumulation_steps=steps))
        for stage in (one, other)
    )
    seconds = first.step.total_seconds / second.step.total_seconds
    sent = first.traffic.bytes_per_gpu_per_step / second.traffic.bytes_per_gpu_per_step
    assert math.isclose(seconds, sent, rel_tol=0.01)


@pytest.mark.parametrize(("precision", "moved"), [("fp16", 3), ("bf16", 7)])
def test_gathered_8_bit_weights_are_unpacked_at_the_memorys_rate(precision, moved):
    """Two gathers of 8.03e9 weights x 7 bytes / 2.039e12 B/s = 55 ms in bf16."""
    place, work = cluster(8), workload(precision=precision)

    def step(**changes):
        return estimate(LLAMA_3_8B, place, work, plan(stage=3, **changes))

    whole, packed = step(), step(quantized_weights=True)
    gathers = [one for one in whole.traffic.per_collective if one.collective == "all-gather"]
    weights = sum(one.payload_elements for one in gathers if one.purpose.startswith("weights"))
    taken = packed.step.compute_seconds - whole.step.compute_seconds
    assert taken == pytest.approx(weights * moved / place.gpu.memory_bandwidth_bytes_per_second, rel=0.01)
