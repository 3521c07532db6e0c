"""8-bit states by hand: a byte an element and state, and an fp32 maximum for each block of 256 elements."""

from __future__ import annotations

import pytest
from builders import LLAMA_3_8B, cluster, plan, workload

from zeroconf.estimate.estimate import estimate
from zeroconf.estimate.optimizers import optimizer_memory


@pytest.mark.parametrize(
    ("optimizer", "elements", "expected"),
    [
        # counted in bitsandbytes 0.50.2 under DeepSpeed 0.19.8, 6,951,168 parameters on 8 ranks
        ("adamw-8bit", 868_896, 2 * 868_896 + 2 * 13_580),
        ("lion-8bit", 868_896, 868_896 + 13_580),
        # fewer than min_8bit_size: two fp32 states, or one
        ("adamw-8bit", 4095, 8 * 4095),
        ("lion-8bit", 4095, 4 * 4095),
        ("adamw-8bit", 4096, 2 * 4096 + 2 * 4 * 16),
        ("adamw", 4095, 8 * 4095),
    ],
)
def test_bytes_of_the_states(optimizer, elements, expected):
    assert optimizer_memory(optimizer).states_bytes(elements) == expected


def test_the_fp32_master_stays():
    """Llama-3-8B on 8 GPUs, stage 2: 4 + 2 + 8/256 bytes for each of 1,003,782,656 elements."""
    load = workload(optimizer="adamw-8bit")
    states = estimate(LLAMA_3_8B, cluster(), load, plan(2)).gpu.moments["step"].optimizer_states
    shard = LLAMA_3_8B.num_parameters // 8
    assert states == pytest.approx((4 + 2 + 8 / 256) * shard, rel=1e-6)
    assert estimate(LLAMA_3_8B, cluster(), load, plan(0)).gpu.moments["step"].optimizer_states == pytest.approx(
        8 * states, rel=1e-6
    )
