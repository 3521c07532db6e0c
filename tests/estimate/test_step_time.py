from __future__ import annotations

from dataclasses import replace

import pytest
from builders import LLAMA_3_8B, cluster, plan, workload

from zeroconf.estimate.estimate import estimate
from zeroconf.estimate.mixtures import idle_parameters
from zeroconf.estimate.step_time import flops_per_second, forward_flops
from zeroconf.inputs import catalogue


def test_forward_flops_worked_number():
    assert forward_flops(LLAMA_3_8B, workload(), 1) == pytest.approx(7.458e13, rel=1e-3)


def test_a100_reaches_200_tflops_at_width_4096():
    assert flops_per_second(LLAMA_3_8B, cluster(), workload()) == pytest.approx(199.9e12, rel=1e-3)


def test_checkpointing_costs_a_third_more_compute():
    plain = estimate(LLAMA_3_8B, cluster(), workload(), plan(2)).step
    checkpointed = estimate(LLAMA_3_8B, cluster(), workload(), plan(2, activation_checkpointing=True)).step
    assert checkpointed.compute_seconds / plain.compute_seconds == pytest.approx(4 / 3)
    assert checkpointed.model_flops_utilization < plain.model_flops_utilization


def test_the_sum_of_the_parts_is_the_total():
    for offload in ("none", "cpu"):
        step = estimate(LLAMA_3_8B, cluster(), workload(), plan(2, offload_optimizer=offload)).step
        parts = (
            step.compute_seconds + step.exposed_communication_seconds + step.offload_seconds + step.optimizer_seconds
        )
        assert step.total_seconds == pytest.approx(parts)


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
    idle = 48 * 15 * 3 * 5120 * 8192
    assert idle_parameters(scout) == idle == scout.num_parameters - scout.num_active_parameters
    active = forward_flops(replace(scout, architecture="mixtral"), workload(), 1)
    assert forward_flops(scout, workload(), 1) - active == 2 * idle * 4096
    # which is no model FLOP: the same work done in more time is a lower share of the peak
    utilization = [
        estimate(model, cluster(), workload(), plan(3)).step.model_flops_utilization
        for model in (scout, replace(scout, architecture="mixtral"))
    ]
    assert utilization[0] < utilization[1]


def test_fp32_uses_the_fp32_peak():
    half = flops_per_second(LLAMA_3_8B, cluster(), workload())
    assert flops_per_second(LLAMA_3_8B, cluster(), workload(precision="fp32")) == pytest.approx(half / 16)
