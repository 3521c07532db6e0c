"""Host memory of offload against what DeepSpeed 0.19.8 pins and keeps, counted in its dry run.

Per rank of 8, in bytes per parameter: the Llama of 7,475,456 parameters that test_states.py measures.
"""

from __future__ import annotations

import pytest
from builders import LLAMA_3_8B, ORACLE_LIMITS, ORACLE_LLAMA, cluster, plan, workload

from zeroconf import api
from zeroconf.estimate.host import host_memory
from zeroconf.estimate.sizes import pinned_apart, sizes
from zeroconf.inputs.ds_config import parse_config
from zeroconf.keys import key_table
from zeroconf.plan.choose import decide
from zeroconf.units import GIB

CPU, NVME = {"offload_optimizer": "cpu"}, {"offload_optimizer": "nvme"}


def per_parameter(stage, **changes):
    """Pinned and pageable bytes of one rank, per parameter."""
    chosen = plan(stage, reduce_bucket_size=1_000_000, **((ORACLE_LIMITS if stage == 3 else {}) | changes))
    ranks = cluster()
    host = host_memory(sizes(ORACLE_LLAMA, ranks, workload(), chosen), ranks, chosen)
    count = ranks.num_gpus * ORACLE_LLAMA.num_parameters
    return host.pinned_bytes / count, host.pageable_bytes / count


@pytest.mark.parametrize(
    ("stage", "changes", "pinned", "pageable"),
    [
        (2, {}, 0, 0),
        # two fp32 blocks of 3.7e6 bytes become 4.2e6, the 16-bit one and the largest tensor's are rounded too
        (2, CPU, 1.543, 1.000),
        (2, CPU | {"gradient_accumulation_steps": 2}, 1.823, 1.000),
        (3, CPU, 0.842, 1.500),
        (3, CPU | {"pin_memory": False}, 0, 2.250),
        (3, CPU | {"offload_param": "cpu"}, 1.122, 1.500),
        (3, {"offload_param": "cpu"}, 0.281, 0),
        (3, NVME, 2.281, 0),
        (3, NVME | {"offload_param": "nvme", "nvme_param_buffer_elements": 10_000_000}, 5.237, 0),
    ],
)
def test_host_memory_agrees_with_counted_bytes(stage, changes, pinned, pageable):
    assert per_parameter(stage, **changes) == pytest.approx((pinned, pageable), abs=0.002)


@pytest.mark.parametrize(
    ("model", "num_gpus", "dry_run_gib"),
    [("qwen2.5-7b", 1, 27.59), ("qwen2.5-7b", 2, 2 * 13.80), ("llama-3.1-8b", 1, 17.13), ("qwen2.5-1.5b", 1, 3.93)],
)
def test_frozen_weights_are_pinned_tensor_by_tensor(model, num_gpus, dry_run_gib):
    options = {"model": model, "hardware": f"{num_gpus}xRTX4090", "lora_rank": 16, "seq_len": 2048}
    facts, _ = api.load_facts(options | {"zero_stage": 3, "offload": "all", "micro_batch_size": 1})
    host = decide(facts).candidates[0].estimate.host
    assert host.pinned_bytes == pytest.approx(dry_run_gib * GIB, rel=0.02)


def test_a_block_of_its_own_for_each_matrix():
    # 32 blocks of 32 + 8 + 8 + 32 + 3 x 128 MiB and twice 1024, by 32 x 416 and twice 1002
    assert pinned_apart(LLAMA_3_8B, 1, 2) == pytest.approx((32 * 464 + 2 * 1024) / (32 * 416 + 2 * 1002), rel=1e-6)


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("steps", [1, 4])
def test_rounding_is_what_pinning_adds(stage, steps):
    ranks = cluster()
    hosts = []
    for pins in (True, False):
        chosen = plan(stage, **CPU, gradient_accumulation_steps=steps, pin_memory=pins)
        hosts.append(host_memory(sizes(ORACLE_LLAMA, ranks, workload(), chosen), ranks, chosen))
    pinned, pageable = hosts
    assert pinned.rounding_bytes > 0
    assert pageable.rounding_bytes == 0
    kept = [host.pinned_bytes + host.pageable_bytes for host in hosts]
    assert kept[0] - pinned.rounding_bytes == kept[1]


def test_offload_pins_since_0_19_5_unless_the_file_says_otherwise():
    # DeepSpeed PR 8207; 0.19.4 has False in zero/offload_config.py, 0.19.8 True
    key = key_table("deepspeed").key("zero_optimization", "offload_optimizer", "pin_memory")
    assert key is not None
    assert (key.default, key.earlier_defaults) == (True, {"0.19.4": False})
    block = {"device": "cpu"}
    for said, pins in (({}, None), ({"pin_memory": False}, False), ({"pin_memory": True}, True)):
        content = {"zero_optimization": {"stage": 2, "offload_optimizer": block | said}}
        assert parse_config(content, "ds.json").plan.pin_memory is pins
