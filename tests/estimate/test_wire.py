"""Bytes on the wire by backend; counted on two network cards in benchmarks/gloo_bytes.py."""

from __future__ import annotations

import pytest
from builders import LLAMA_3_8B, cluster, plan, workload

from zeroconf.estimate.estimate import estimate
from zeroconf.estimate.wire import sent_share, traffic_bytes


@pytest.mark.parametrize(
    ("kind", "ranks", "nccl", "gloo"),
    [
        ("all-reduce", 2, 1.0, 1.0),
        ("all-reduce", 4, 1.5, 1.5),
        ("all-gather", 4, 0.75, 0.75),
        ("reduce-scatter", 4, 0.75, 1.5),
        ("reduce", 2, 0.5, 0.75),
    ],
)
def test_shares(kind, ranks, nccl, gloo):
    assert sent_share(kind, ranks) == nccl
    assert sent_share(kind, ranks, "gloo") == gloo


def test_gloo_sends_more_where_gradients_are_scattered():
    def both(stage):
        traffic = estimate(LLAMA_3_8B, cluster(), workload(), plan(stage)).traffic
        assert traffic_bytes(traffic, "nccl") == traffic.bytes_per_gpu_per_step
        return traffic_bytes(traffic, "gloo") / traffic.bytes_per_gpu_per_step

    assert [both(stage) for stage in range(3)] == pytest.approx([1, 1, 1])
    assert both(3) > 1.3


def test_offload_moves_gradients_down_and_weights_up():
    def moved(stage, **changes):
        chosen = plan(stage, offload_optimizer="cpu", **changes)
        found = estimate(LLAMA_3_8B, cluster(), workload(), chosen).traffic.transfers
        share = LLAMA_3_8B.num_parameters / 8
        return {
            route: sum(one.bytes for one in found if one.route == route) / share
            for route in ("GPU to host", "host to GPU", "NVMe to host")
        }

    assert moved(1) == pytest.approx({"GPU to host": 4, "host to GPU": 2, "NVMe to host": 0}, rel=1e-3)
    assert moved(1, gradient_accumulation_steps=4) == moved(1)
    # stage 3 keeps its gradients on the host, 2 bytes an element, down and up in every micro step
    assert moved(3, gradient_accumulation_steps=4)["GPU to host"] == pytest.approx(4 + 4 * 2, rel=1e-3)
    assert moved(3, offload_param="cpu")["host to GPU"] > 2 + 2
    assert not estimate(LLAMA_3_8B, cluster(), workload(), plan(3)).traffic.transfers
