"""Parameters that one GPU offloads are copied to it under the live limits, as DeepSpeed 0.19.8 does in dry runs.

Recomputed, attention by sdpa, in one micro step; GiB at the peak, without the context.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import cluster, plan, workload

from zeroconf.estimate.estimate import estimate
from zeroconf.inputs.model import read_model

BOTH = {"offload_optimizer": "cpu", "offload_param": "cpu"}
OPTIMIZER = {"offload_optimizer": "cpu"}
WIDE = {"max_live_parameters": 10**10, "max_reuse_distance": 3 * 10**10}
LEAN = {"max_live_parameters": 0, "max_reuse_distance": 0, "prefetch_bucket_size": 0}


def estimated(model, gpus, tokens, *, recomputes=True, **offload):
    chosen = plan(3, activation_checkpointing=recomputes, overlap_comm=True, **offload)
    place, work = cluster(gpus_per_node=gpus), workload(sequence_length=tokens, attention="sdpa")
    return estimate(read_model(model), place, work, chosen)


@pytest.mark.parametrize(
    ("model", "gpus", "tokens", "offload", "gib"),
    [
        ("gpt2", 1, 1024, BOTH, 1.760),
        ("gpt2", 1, 512, BOTH | {"recomputes": False}, 1.708),
        ("gpt2", 1, 64, BOTH | {"recomputes": False, "reduce_bucket_size": 40_000_000}, 0.508),
        ("qwen2.5-0.5b", 1, 128, BOTH, 3.373),
        ("qwen2.5-0.5b", 1, 128, BOTH | {"reduce_bucket_size": 140_000_000}, 1.782),
        ("qwen2.5-0.5b", 1, 128, OPTIMIZER, 4.040),
        ("qwen2.5-0.5b", 2, 128, OPTIMIZER, 3.199),
        ("qwen2.5-1.5b", 1, 2048, BOTH, 6.463),
        ("qwen2.5-1.5b", 2, 2048, BOTH, 6.463),
        ("qwen2.5-1.5b", 1, 512, BOTH | {"recomputes": False}, 5.252),
        ("qwen2.5-1.5b", 1, 512, {"offload_param": "cpu"}, 26.655),
        ("qwen2.5-1.5b", 1, 2048, {"offload_optimizer": "cpu", "offload_param": "nvme"}, 6.401),
        # a vocabulary matrix beyond the bucket, tied and not
        ("gemma-2-2b", 1, 512, BOTH, 6.425),
        ("llama-3.1-8b", 1, 256, BOTH, 6.133),
        ("llama-3.1-8b", 1, 256, BOTH | LEAN, 5.824),
        ("llama-3.1-8b", 2, 256, BOTH, 5.549),
        ("llama-2-7b", 1, 4096, BOTH, 6.203),
        ("llama-2-7b", 1, 512, BOTH | WIDE, 14.887),
    ],
)
def test_the_peak_is_a_dry_runs(model, gpus, tokens, offload, gib):
    gpu = estimated(model, gpus, tokens, **offload).gpu
    peak = gpu.peak_allocated_bytes - gpu.peak.overhead
    assert peak / 2**30 == pytest.approx(gib, rel=0.025)


def test_init_gathers_the_largest_tensor_by_way_of_its_shard():
    parts = estimated("llama-2-7b", 1, 64, **BOTH).gpu.moments["init"]
    assert parts.temporaries == 2 * 2 * 32_000 * 4096


@pytest.mark.parametrize("device", ["cpu", "nvme"])
def test_what_is_gathered_moves_up_and_what_is_not_offloaded_does_not(device):
    """Half as many GPUs move twice as much each, to one."""
    moved = {}
    for gpus in (1, 2, 4):
        found = estimated("qwen2.5-1.5b", gpus, 512, offload_optimizer="cpu", offload_param=device)
        (moved[gpus],) = (
            one.bytes
            for one in found.traffic.transfers
            if one.route == "host to GPU" and one.purpose.startswith("weights")
        )
    assert moved[1] == pytest.approx(2 * moved[2], rel=1e-3)
    assert moved[1] == pytest.approx(4 * moved[4], rel=1e-3)
    assert moved[1] >= 2 * 2 * 1.5e9 - 2 * 10**9  # twice in 16 bits, but for what the limits keep
    kept = estimated("qwen2.5-1.5b", 1, 512, offload_optimizer="cpu")
    assert not any(one.purpose.startswith("weights") for one in kept.traffic.transfers)
    assert all(parts.gathered_parameters == 0 for parts in kept.gpu.moments.values())


def test_a_frozen_model_beside_is_copied_too():
    chosen = plan(3, activation_checkpointing=True, **BOTH)
    work = workload(sequence_length=4096, attention="sdpa")
    alone, beside = (
        estimate(read_model("llama-2-7b"), cluster(gpus_per_node=1), one, chosen).gpu.moments["forward"]
        for one in (work, replace(work, frozen_parameters=6_738_415_616))
    )
    assert beside.gathered_parameters > alone.gathered_parameters + 2 * 10**9
