"""A frozen model beside: whole before stage 3, partitioned and gathered there, as TRL prepares it."""

from __future__ import annotations

import pytest
from builders import LLAMA_3_8B, cluster, plan, workload

from zeroconf.estimate.estimate import estimate
from zeroconf.estimate.sizes import pinned_apart

FROZEN = 7_000_000_000


def costs(stage, **changes):
    """Without and with the frozen model."""
    chosen = plan(stage, **changes)
    return [estimate(LLAMA_3_8B, cluster(), workload(frozen_parameters=frozen), chosen) for frozen in (0, FROZEN)]


@pytest.mark.parametrize("moment", ["init", "forward", "backward", "step"])
@pytest.mark.parametrize("stage", [0, 1, 2])
def test_whole_on_each_gpu_before_stage_3(stage, moment):
    alone, beside = costs(stage)
    assert beside.gpu.moments[moment].parameters - alone.gpu.moments[moment].parameters == 2 * FROZEN


def test_partitioned_at_stage_3_and_gathered_in_forward():
    alone, beside = costs(3, max_reuse_distance=0)
    for moment in ("init", "backward", "step"):
        more = beside.gpu.moments[moment].total - alone.gpu.moments[moment].total
        assert more == 2 * FROZEN // 8
    forward = beside.gpu.moments["forward"]
    # the live limit and one vocabulary matrix of it, beside what is gathered of the other
    assert forward.gathered_parameters >= 2 * (10**9 + 128256 * 4096)
    assert forward.parameters - alone.gpu.moments["forward"].parameters == 2 * FROZEN // 8


def test_its_shards_go_to_the_host_with_offloaded_parameters():
    alone, beside = costs(3, offload_optimizer="cpu", offload_param="cpu")
    assert beside.gpu.moments["step"].parameters == alone.gpu.moments["step"].parameters
    # 1.75e9 bytes on each of 8 ranks, each tensor's share pinned apart: taken to be shaped as the model that trains
    each = 1.75e9 * pinned_apart(LLAMA_3_8B, 8, 2)
    assert beside.host.pinned_bytes - alone.host.pinned_bytes == pytest.approx(8 * each, abs=8)


def test_it_computes_and_sends_one_forward_pass():
    alone, beside = costs(3)
    compute = beside.step.compute_seconds - alone.step.compute_seconds
    # 2 x 7e9 x 4096 operations at 0.79 of 312e12 per second
    assert compute == pytest.approx(2 * FROZEN * 4096 / (0.79 * 312e12), rel=1e-6)
    sent = beside.traffic.bytes_per_gpu_per_step - alone.traffic.bytes_per_gpu_per_step
    assert sent == 2 * FROZEN * 7 // 8
    alone, beside = costs(2)
    assert beside.traffic == alone.traffic
