"""The estimate by DeepSpeed release against each release's own dry run.

Counted by benchmarks/dry_run_releases.py as rank 0 of 8: the oracle's Llama, 8 tokens, bf16 unless said, reduce bucket
1e6. Figures are bytes per parameter.
"""

from __future__ import annotations

import pytest
from builders import LLAMA_3_8B, ORACLE_LIMITS, ORACLE_LLAMA, cluster, plan, workload

from zeroconf.estimate.estimate import estimate
from zeroconf.estimate.releases import DeepSpeedRelease
from zeroconf.types import Versions

CPU = {"offload_optimizer": "cpu", "pin_memory": None}
ALL_CPU = CPU | {"offload_param": "cpu"}
WHOLE = {"zero_init": False}


def versions(release):
    return Versions(deepspeed=tuple(int(part) for part in release.split(".")))


def cost_of(release, stage, precision="bf16", lora=None, **changes):
    limits = {"reduce_bucket_size": 1_000_000} | (ORACLE_LIMITS if stage == 3 else {})
    load = workload(
        sequence_length=8,
        global_batch_size=8,
        precision=precision,
        trainable_parameters=lora,
        lora_rank=8 if lora else None,
    )
    return estimate(ORACLE_LLAMA, cluster(), load, plan(stage, **(limits | changes)), versions(release))


def peaks(cost):
    """Bytes per parameter at init, forward, backward and step, without what PyTorch does not count."""
    return [(parts.total - parts.overhead) / ORACLE_LLAMA.num_parameters for parts in cost.gpu.moments.values()]


MEASURED = [
    # release, stage, changes: init, forward, backward, step
    ("0.16.9", 0, {}, 6.500, 9.626, 11.500, 9.500),
    ("0.17.6", 0, {}, 18.000, 14.126, 18.000, 24.000),
    ("0.16.9", 0, {"gradient_accumulation_steps": 2}, 6.500, 9.626, 11.500, 9.500),
    ("0.16.9", 0, {"precision": "fp16"}, 18.000, 14.125, 18.000, 24.000),
    ("0.17.6", 1, {}, 3.000, 3.626, 5.768, 4.509),
    ("0.18.9", 1, {}, 4.000, 3.626, 5.768, 4.509),
    ("0.16.9", 1, {"fp32_gradients": True}, 6.500, 7.626, 11.500, 9.500),
    # stage 0's wrapper by mistake
    ("0.17.6", 1, {"fp32_gradients": True}, 18.000, 14.125, 18.000, 24.000),
    ("0.18.9", 1, {"fp32_gradients": True}, 6.500, 7.626, 11.500, 9.500),
    ("0.17.6", 2, {"gradient_accumulation_steps": 2}, 3.000, 3.884, 4.495, 4.509),
    ("0.16.9", 2, CPU, 2.140, 2.266, 3.179, 2.640),
    ("0.17.6", 2, CPU, 2.140, 2.266, 3.179, 2.140),
    ("0.18.9", 2, CPU, 4.000, 2.266, 3.179, 2.140),
    ("0.17.6", 3, {}, 1.548, 2.763, 2.931, 3.018),
    ("0.18.9", 3, {}, 1.408, 2.763, 2.931, 3.018),
    ("0.18.9", 3, WHOLE, 2.018, 4.301, 4.504, 3.018),
    ("0.19.8", 3, WHOLE, 2.018, 2.763, 2.931, 3.018),
    ("0.16.9", 3, WHOLE | {"lora": 315_392, "param_persistence_threshold": 1000}, 2.102, 2.778, 2.693, 0.634),
    ("0.17.6", 3, CPU, 0.798, 1.013, 1.268, 0.659),
    ("0.18.9", 3, CPU, 0.658, 1.013, 1.268, 0.659),
    ("0.19.8", 3, CPU, 0.658, 1.013, 1.268, 0.519),
    ("0.17.6", 3, ALL_CPU, 0.548, 0.780, 1.018, 0.409),
    ("0.19.8", 3, ALL_CPU, 0.425, 0.780, 1.018, 0.269),
]


@pytest.mark.parametrize(("release", "stage", "changes", "init", "forward", "backward", "step"), MEASURED)
def test_the_estimate_is_that_of_the_release(release, stage, changes, init, forward, backward, step):
    expected = [init, forward, backward, step]
    assert peaks(cost_of(release, stage, **changes)) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(
    ("release", "stage", "changes", "pinned", "pageable"),
    [
        # the fp32 weights alone are pinned, whatever the file says
        ("0.16.9", 2, CPU, 0.561, 1.640),
        ("0.17.6", 2, CPU, 0.561, 1.890),
        ("0.18.9", 2, CPU, 0, 2.390),
        ("0.19.8", 2, CPU, 1.543, 1.000),
        ("0.18.9", 3, CPU, 0, 2.250),
        ("0.19.8", 3, CPU, 0.842, 1.500),
        # offloaded weights always are
        ("0.16.9", 3, ALL_CPU, 0.281, 2.250),
        ("0.19.8", 3, ALL_CPU, 1.122, 1.500),
    ],
)
def test_host_memory_is_that_of_the_release(release, stage, changes, pinned, pageable):
    host = cost_of(release, stage, **changes).host
    per_rank = 8 * ORACLE_LLAMA.num_parameters
    assert (host.pinned_bytes / per_rank, host.pageable_bytes / per_rank) == pytest.approx((pinned, pageable), abs=2e-3)


def test_recomputed_blocks_keep_no_linear_weights_in_any_release():
    # counted: 2.965 bytes per parameter in backward in all four releases
    changes = WHOLE | {"activation_checkpointing": True}
    old, new = (cost_of(release, 3, **changes).gpu for release in ("0.16.9", "0.19.8"))
    assert old.moments["backward"] == new.moments["backward"]


def test_what_a_file_says_of_pinning_holds_in_every_release():
    for said in (True, False):
        hosts = {cost_of(release, 3, **CPU | {"pin_memory": said}).host for release in ("0.16.9", "0.19.4", "0.19.8")}
        assert len(hosts) == 1


@pytest.mark.parametrize(
    ("behaviour", "first", "last_before"),
    [
        ("flattens_on_gpu", "0.18.7", "0.18.6"),
        ("stages_offloaded_weights", "0.17.0", "0.16.9"),
        ("pins_by_default", "0.19.5", "0.19.4"),
        ("reduces_overflow_first", "0.19.6", "0.19.5"),
        ("copies_masters_in_fp32", "0.18.3", "0.18.2"),
        ("gathers_in_place", "0.18.5", "0.18.4"),
        ("releases_leftovers", "0.19.3", "0.19.2"),
        ("replaces_linear_without_zero_init", "0.19.4", "0.19.3"),
    ],
)
def test_a_behaviour_begins_with_a_release(behaviour, first, last_before):
    def has(release):
        return getattr(DeepSpeedRelease(versions(release).deepspeed), behaviour)

    assert has(first)
    assert not has(last_before)
    assert has("0.19.8")
    assert has("1.0")


def test_a_newer_release_is_taken_as_the_newest_known():
    assert cost_of("0.99.0", 3, **WHOLE).gpu == cost_of("0.19.8", 3, **WHOLE).gpu


def test_linear_weights_stay_gathered_in_real_widths_too():
    # Llama-3-8B on 8 GPUs: 7.5e9 elements in 16 bits, all but the input's vocabulary
    old, new = (
        estimate(LLAMA_3_8B, cluster(), workload(), plan(3, zero_init=False), versions(release))
        for release in ("0.19.3", "0.19.4")
    )
    gathered = old.gpu.moments["backward"].gathered_parameters
    assert gathered == pytest.approx(2 * (8_030_261_248 - 128_256 * 4096), rel=0.03)
    assert new.gpu.moments["backward"].gathered_parameters < gathered / 4
    # the key does the same in any release
    plain = plan(3, memory_efficient_linear=False)
    kept = estimate(LLAMA_3_8B, cluster(), workload(), plain, versions("0.19.8"))
    assert kept.gpu.moments["backward"].gathered_parameters == gathered
