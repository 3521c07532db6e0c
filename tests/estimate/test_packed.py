"""Packed weights (QLoRA): bytes by hand from bitsandbytes' layout, and peft's own published figure."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import LLAMA_3_8B, cluster, plan, workload

from zeroconf.estimate.estimate import estimate
from zeroconf.estimate.packed import absmax_bytes, packed_weights
from zeroconf.estimate.sizes import sizes
from zeroconf.inputs.lora import with_lora
from zeroconf.inputs.model import read_model
from zeroconf.units import GIB

LINEAR = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096)
OTHERS = 2 * 128256 * 4096 + 65 * 4096
ADAPTERS = with_lora(LLAMA_3_8B, 16)


def qlora(**changes):
    return workload(lora_rank=16, trainable_parameters=ADAPTERS, quantize="nf4", **changes)


def test_linear_layers_of_the_blocks_are_packed():
    assert packed_weights(LLAMA_3_8B) == LINEAR == 6_979_321_856
    assert absmax_bytes(LINEAR, "nf4") == 4 * LINEAR // 64 == 436_207_616
    assert absmax_bytes(LINEAR, "nf4-double") == LINEAR // 64 + 4 * LINEAR // 64 // 256 == 110_755_840


def test_experts_stay_as_they_are():
    """Transformers 5 holds them and their routers as parameters, which are no linear layers."""
    mixtral = read_model("mixtral-8x7b")
    assert packed_weights(mixtral) == 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096)


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_each_gpu_holds_the_packed_weights_before_stage_3(stage):
    gpu = estimate(LLAMA_3_8B, cluster(), qlora(), plan(stage)).gpu
    scales = 4 * LINEAR // 64
    assert gpu.moments["backward"].parameters == LINEAR // 2 + 2 * OTHERS + 2 * ADAPTERS + scales
    # as it is built: peft makes the adapters and all that is not packed fp32
    assert gpu.moments["init"].total >= LINEAR // 2 + 4 * OTHERS + 4 * ADAPTERS + scales


def test_only_adapters_have_gradients_and_states():
    counted = sizes(LLAMA_3_8B, cluster(), qlora(), plan(2))
    assert counted.trainable == ADAPTERS
    step = estimate(LLAMA_3_8B, cluster(), qlora(), plan(2)).gpu.moments["step"]
    assert step.optimizer_states == 12 * ADAPTERS // 8


def test_stage_3_partitions_weights_but_not_their_scales():
    recomputed = plan(3, activation_checkpointing=True, param_persistence_threshold=0)
    step = estimate(LLAMA_3_8B, cluster(), qlora(), recomputed).gpu.moments["step"]
    shards = (LINEAR // 2 + 2 * OTHERS) // 8 + 2 * ADAPTERS // 8
    assert step.parameters == pytest.approx(shards + 4 * LINEAR // 64, rel=1e-3)


def test_without_recomputation_stage_3_keeps_every_gathered_weight():
    """MatMul4Bit keeps a view: counted in DeepSpeed 0.19.8, 2,949,568 bytes for 2,949,120 of packed weights."""
    lean = {"max_live_parameters": 10**8, "max_reuse_distance": 10**8}
    kept, freed = (
        estimate(LLAMA_3_8B, cluster(), qlora(), plan(3, activation_checkpointing=recomputed, **lean)).gpu
        for recomputed in (False, True)
    )
    assert kept.moments["forward"].gathered_parameters >= LINEAR // 2
    assert freed.moments["forward"].gathered_parameters < LINEAR // 2


def test_one_layer_is_unpacked_for_its_multiplication():
    assert sizes(LLAMA_3_8B, cluster(), qlora(), plan(0)).dequantized_bytes == 2 * 14336 * 4096


def test_stage_3_gathers_packed_bytes():
    """Forward, recomputation and backward gather a block each, whose frozen weights go when it is recomputed."""
    lean = {"max_reuse_distance": 0, "max_live_parameters": 10**6, "param_persistence_threshold": 0}
    once = plan(3, activation_checkpointing=True, **lean)
    sent = estimate(LLAMA_3_8B, cluster(), qlora(), once).traffic.per_collective
    gathers = sum(one.bytes for one in sent if one.collective == "all-gather")
    assert gathers == pytest.approx((3 * (LINEAR // 2 + 4 * ADAPTERS) + 2 * 2 * OTHERS) * 7 / 8, rel=1e-3)


def test_the_published_peak_of_peft():
    """Llama-2-70B on two cards, stage 3, double quantization: peft's DeepSpeed guide shows 36.6 GB (nvidia-smi's GiB).

    Each card loads all packed weights first, which is the peak.
    """
    model = read_model("llama-2-70b")
    load = workload(
        sequence_length=2048,
        lora_rank=8,
        trainable_parameters=with_lora(model, 8),
        quantize="nf4-double",
    )
    chosen = plan(3, micro_batch_size=2, gradient_accumulation_steps=2, activation_checkpointing=True)
    gpu = estimate(model, replace(cluster(gpus_per_node=2), num_nodes=1), load, chosen).gpu
    assert gpu.peak_moment == "init"
    assert gpu.peak_allocated_bytes / GIB == pytest.approx(36.6, rel=0.02)
