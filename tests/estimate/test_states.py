"""The state formulas against bytes counted in DeepSpeed 0.19.8.

Counted on rank 0 of N: a Llama of 7,475,456 parameters (largest tensor 524,288), bf16 and 8 ranks unless said, reduce
bucket 1e6; stage 3 with a live limit of 1e6, prefetch 5e5. Figures are bytes per parameter. benchmarks/memory_oracle
counts them again, and many more.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import LLAMA_3_8B, ORACLE_LIMITS, ORACLE_LLAMA, cluster, plan, workload

from zeroconf.estimate.estimate import estimate
from zeroconf.estimate.sizes import sizes
from zeroconf.estimate.states import state_moments


def moments(stage, world_size=8, precision="bf16", model=ORACLE_LLAMA, lora=None, **changes):
    """The states of one plan; small models with the oracle's limits. ``lora`` is the number of adapter elements."""
    small = model.hidden_size == ORACLE_LLAMA.hidden_size
    limits = {"reduce_bucket_size": 1_000_000} | (ORACLE_LIMITS if stage == 3 else {}) if small else {}
    fields = limits | changes
    load = workload(precision=precision, trainable_parameters=lora, lora_rank=8 if lora else None)
    chosen = plan(stage, **fields)
    return state_moments(sizes(model, cluster(gpus_per_node=world_size), load, chosen), chosen)


def whole_backward(stage, world_size, precision, **changes):
    """Bytes per parameter at backward's peak with the activations of 1 x 8 tokens: they decide which moment it is."""
    limits = {"reduce_bucket_size": 1_000_000} | (ORACLE_LIMITS if stage == 3 else {})
    load = workload(precision=precision, sequence_length=8, attention="eager")
    backward = estimate(
        ORACLE_LLAMA, cluster(gpus_per_node=world_size), load, plan(stage, **(limits | changes))
    ).gpu.moments["backward"]
    return (backward.total - backward.overhead) / ORACLE_LLAMA.num_parameters


def per_parameter(parts, model=ORACLE_LLAMA):
    return parts.total / model.num_parameters


MEASURED = [
    # stage, N, precision, changes: init, steady, backward with activations, step
    (0, 1, "bf16", {}, 18.000, 14.000, 18.000, 24.000),
    (0, 8, "fp32", {}, 4.000, 12.000, 20.000, 16.000),
    (1, 1, "bf16", {}, 10.000, 14.000, 18.009, 22.000),
    (1, 2, "bf16", {}, 6.000, 8.000, 11.026, 12.018),
    (1, 8, "bf16", {}, 4.000, 3.500, 5.768, 4.509),
    (1, 64, "bf16", {}, 4.000, 2.188, 4.456, 2.453),
    (1, 8, "fp32", {}, 8.000, 5.500, 10.036, 6.578),
    # between micro steps the gradients wait, which is more than the last step needs
    (1, 8, "bf16", {"gradient_accumulation_steps": 4}, 4.000, 3.500, 6.018, 5.768),
    (1, 8, "bf16", {"fp32_gradients": True}, 6.500, 7.500, 11.500, 9.500),
    # backward on the last rank: the gradients that it keeps are there when all activations are
    (2, 1, "bf16", {}, 10.000, 14.000, 16.413, 22.000),
    (2, 2, "bf16", {}, 6.000, 8.000, 9.600, 12.018),
    (2, 8, "bf16", {}, 4.000, 3.500, 4.416, 4.509),
    (2, 64, "bf16", {}, 4.000, 2.188, 2.958, 2.453),
    (2, 8, "fp32", {}, 8.000, 5.500, 7.315, 6.578),
    (2, 8, "bf16", {"gradient_accumulation_steps": 4}, 4.000, 3.500, 4.701, 4.509),
    (3, 1, "bf16", {}, 10.000, 16.268, 16.650, 22.268),
    (3, 8, "bf16", {}, 1.408, 2.269, 2.932, 3.018),
    (3, 64, "bf16", {}, 0.533, 0.519, 1.182, 0.611),
    (3, 8, "bf16", {"fp32_gradients": True}, 1.658, 2.519, 3.244, 3.018),
    (3, 8, "fp32", {}, 2.316, 3.037, 4.349, 3.535),
    (3, 8, "bf16", {"contiguous_gradients": False}, 1.250, 2.001, 2.924, 2.750),
    (3, 8, "bf16", {"zero_hpz_partition_size": 2}, 2.408, 2.269, 3.932, 4.018),
]


@pytest.mark.parametrize(
    ("stage", "world_size", "precision", "changes", "init", "steady", "backward", "step"), MEASURED
)
def test_states_agree_with_counted_bytes(stage, world_size, precision, changes, init, steady, backward, step):
    states = moments(stage, world_size, precision, **changes)
    assert per_parameter(states.init) == pytest.approx(init, rel=0.01)
    assert per_parameter(states.steady) == pytest.approx(steady, rel=0.002)
    assert whole_backward(stage, world_size, precision, **changes) == pytest.approx(backward, rel=0.02)
    assert per_parameter(states.step) == pytest.approx(step, rel=0.01)


def test_stage_0_step_holds_24_bytes_per_parameter():
    states = moments(0)
    assert states.step.total == 24 * ORACLE_LLAMA.num_parameters
    assert states.steady.total == 14 * ORACLE_LLAMA.num_parameters


def test_stage_0_with_another_optimizer_casts_tensor_by_tensor():
    # FP16_UnfusedOptimizer; PyTorch's AdamW in its foreach form adds 4 bytes for all tensors at once
    assert per_parameter(moments(0, optimizer_variant="torch-adamw-fused").step) == 20
    assert per_parameter(moments(0, optimizer_variant="torch-adamw").step) == 24
    assert per_parameter(moments(0, optimizer_variant="torch-adamw-loop").step) == pytest.approx(20.56, rel=0.001)


def test_stage_3_needs_more_than_stage_1_for_a_small_model():
    # one bucket of 5e8 elements stays allocated, and the live limit of 1e9 gathers the whole model
    defaults = {"reduce_bucket_size": 500_000_000, "max_live_parameters": 10**9, "prefetch_bucket_size": 50_000_000}
    stage_1 = moments(1, reduce_bucket_size=500_000_000).steady
    stage_3 = moments(3, **defaults).steady
    assert stage_3.total > 10 * stage_1.total


def test_without_zero_init_every_gpu_builds_the_whole_model():
    whole = moments(3, 64, model=LLAMA_3_8B, zero_init=False).init.total
    partitioned = moments(3, 64, model=LLAMA_3_8B).init.total
    assert whole >= 2 * LLAMA_3_8B.num_parameters > 4 * partitioned


def test_fp32_accumulation_at_stage_1_keeps_gradients_of_the_whole_model():
    # BF16_Optimizer: 6 + 12 / N bytes per parameter between steps, 2 + 12 / N without the key
    assert per_parameter(moments(1, fp32_gradients=True).steady) == pytest.approx(6 + 12 / 8)
    assert per_parameter(moments(1).steady) == pytest.approx(2 + 12 / 8)
    # offload and fp16 keep ZeRO's optimizer
    assert per_parameter(moments(1, fp32_gradients=True, precision="fp16").steady) == pytest.approx(2 + 12 / 8)


def test_stage_3_in_fp32_takes_20_bytes_per_shard_element():
    states = moments(3, precision="fp32", contiguous_gradients=False, param_persistence_threshold=0)
    assert per_parameter(states.steady) == pytest.approx(20 / 8)


def test_the_live_limit_bounds_what_stage_3_gathers():
    few = moments(3, model=LLAMA_3_8B, max_live_parameters=10**8, max_reuse_distance=0)
    many = moments(3, model=LLAMA_3_8B, max_live_parameters=10**9, max_reuse_distance=0)
    assert many.forward.gathered_parameters - few.forward.gathered_parameters == 2 * 9 * 10**8
    # the output matrix is prefetched whole once the limit is not yet passed
    assert many.forward.gathered_parameters == 2 * (10**9 + LLAMA_3_8B.embedding_parameters)
    # the prefetch bucket is no limit: it is filled again after every module
    small = moments(3, model=LLAMA_3_8B, max_reuse_distance=0, prefetch_bucket_size=1_000_000)
    assert small.forward == many.forward
    # without prefetching only the module that computes is there
    none = moments(3, model=LLAMA_3_8B, max_reuse_distance=0, prefetch_bucket_size=0)
    assert none.forward.gathered_parameters == 2 * LLAMA_3_8B.embedding_parameters


def test_one_rank_gathers_nothing():
    assert moments(3, 1).forward.gathered_parameters == 0


def test_overlap_at_stage_1_reduces_during_backward():
    late = moments(1)
    early = moments(1, overlap_comm=True)
    assert per_parameter(early.backward_end) == pytest.approx(4.51, rel=0.02)
    assert late.backward_end.total > early.backward_end.total


def test_hpz_keeps_a_secondary_copy_of_the_weights():
    # measured: +1.0, +0.5, +0.25 bytes per parameter for groups of 2, 4, 8
    plain = moments(3).backward_start.total
    for group, extra in ((2, 1.0), (4, 0.5), (8, 0.25)):
        hpz = moments(3, zero_hpz_partition_size=group).backward_start.total
        assert (hpz - plain) / ORACLE_LLAMA.num_parameters == pytest.approx(extra, abs=0.001)


def test_hpz_never_frees_the_secondary_copy_of_frozen_weights():
    adapters = 315_392
    plain, hpz = moments(3, lora=adapters), moments(3, lora=adapters, zero_hpz_partition_size=4)
    assert hpz.steady.total - plain.steady.total == 2 * ORACLE_LLAMA.num_parameters // 4


def test_frozen_parameters_have_no_states():
    adapters = 315_392
    total = ORACLE_LLAMA.num_parameters + adapters
    assert moments(2, lora=adapters).steady.total == pytest.approx(2 * total + 12 * adapters / 8)
    # at stage 3 adapters stay in peft's fp32, and so small they persist
    assert moments(3, lora=adapters).steady.total / total == pytest.approx(0.751, rel=0.002)


def test_tied_vocabulary_gradients_wait_for_their_sum():
    tied = replace(ORACLE_LLAMA, num_parameters=6_951_168, tied_embeddings=True)
    extra = moments(1, model=tied, reduce_bucket_size=1_000_000).backward_end.activations
    assert extra == 2 * 2 * ORACLE_LLAMA.embedding_parameters


def test_autocast_keeps_16_bit_copies_of_the_linear_weights():
    states = moments(2, precision="fp32", torch_autocast=True)
    # counted: 1.86 bytes per parameter beside the activations
    assert states.forward.activations / ORACLE_LLAMA.num_parameters == pytest.approx(1.86, rel=0.001)


def test_muon_keeps_a_momentum_of_matrices_and_adam_for_the_rest():
    # counted: 3.123 steady, 4.390 in the step
    states = moments(2, optimizer_variant="muon")
    assert per_parameter(states.steady) == pytest.approx(3.123, rel=0.02)
    assert per_parameter(states.step) == pytest.approx(4.390, rel=0.03)


def test_the_last_gradient_passes_a_small_bucket_by():
    # counted on the last of 8 ranks, Llama-3.1-8B with 8 blocks, bf16: 4.985 bytes per parameter when backward ends,
    # the vocabulary's two gradients and a flat copy of the bucket's size on top of weights, states and the bucket
    short = cut(LLAMA_3_8B, 8)
    end = moments(2, model=short).backward_end
    assert end.gradients == 2 * 2 * LLAMA_3_8B.embedding_parameters
    assert per_parameter(end, short) == pytest.approx(4.985, rel=0.005)


def cut(model, layers):
    left_out = (model.num_layers - layers) * model.layer_parameters
    return replace(model, num_layers=layers, num_parameters=model.num_parameters - left_out)


LLAMA_3_70B = replace(
    LLAMA_3_8B,
    num_parameters=70_553_706_496,
    num_layers=80,
    hidden_size=8192,
    intermediate_size=28672,
    num_attention_heads=64,
)


@pytest.mark.parametrize(
    ("model", "layers", "ranks", "stage", "changes", "init", "steady", "step"),
    [
        (LLAMA_3_8B, 8, 8, 2, {}, 4.000, 3.500, 4.876),
        (LLAMA_3_8B, 8, 8, 1, {"gradient_accumulation_steps": 4}, 4.000, 3.500, 5.858),
        (LLAMA_3_8B, 8, 8, 3, {}, 1.734, 2.358, 3.108),
        (LLAMA_3_8B, 8, 64, 3, {}, 0.859, 0.608, 0.701),
        (LLAMA_3_8B, 8, 8, 3, {"zero_hpz_partition_size": 8}, 1.984, 2.358, 3.358),
        (LLAMA_3_8B, 8, 8, 3, {"offload_optimizer": "cpu", "offload_param": "cpu"}, 0.781, 0.358, 0.358),
        (LLAMA_3_70B, 4, 64, 2, {}, 4.000, 2.188, 2.693),
        (LLAMA_3_70B, 4, 64, 3, {}, 0.686, 0.431, 0.525),
    ],
)
def test_real_widths_agree_with_dry_runs(model, layers, ranks, stage, changes, init, steady, step):
    short = cut(model, layers)
    states = moments(stage, ranks, model=short, **changes)
    for parts, counted in ((states.init, init), (states.steady, steady), (states.step, step)):
        assert per_parameter(parts, short) == pytest.approx(counted, rel=0.005)


def test_experts_stay_gathered_from_forward_to_backward_without_checkpointing():
    mixture = replace(
        ORACLE_LLAMA, architecture="mixtral", intermediate_size=176, num_experts=4, num_experts_per_token=2
    )
    saved, recomputed = moments(3, model=mixture), moments(3, model=mixture, activation_checkpointing=True)
    experts = 8 * 4 * 3 * 176 * 256
    assert saved.backward_end.gathered_parameters - recomputed.backward_end.gathered_parameters < 2 * experts
    assert saved.backward_start.gathered_parameters > recomputed.backward_start.gathered_parameters + experts


@pytest.mark.parametrize(
    ("layers", "live", "counted"),
    [(8, 10**9, 1.517), (8, 5 * 10**8, 1.810), (8, 10**8, 1.444), (24, 10**9, 4.713), (24, 5 * 10**8, 4.692)],
)
def test_experts_that_were_not_released_are_not_there_twice(layers, live, counted):
    # counted in dry runs of 8 tokens, 8 ranks: GB that are gathered at backward's peak
    block = 8 * 3 * 3584 * 1024 + 8 * 1024 + 2 * 1024 * (1024 + 256) + 2 * 1024
    mixture = replace(
        LLAMA_3_8B,
        architecture="mixtral",
        num_parameters=layers * block + 2 * 32000 * 1024 + 1024,
        num_layers=layers,
        hidden_size=1024,
        intermediate_size=3584,
        num_attention_heads=8,
        num_key_value_heads=2,
        vocab_size=32000,
        num_experts=8,
        num_experts_per_token=2,
    )
    limits = {"max_live_parameters": live, "max_reuse_distance": min(live, 10**9)}
    states = moments(3, model=mixture, reduce_bucket_size=20_000_000, prefetch_bucket_size=50_000_000, **limits)
    assert states.backward_end.gathered_parameters / 1e9 == pytest.approx(counted, rel=0.05)


def test_muon_at_stage_3_gathers_gradients_and_momentums_for_every_rank():
    # counted: 1.623 init, 2.665 steady, 4.486 in the step, of which the all-gathers' buffers are 1.041
    states = moments(3, optimizer_variant="muon", reduce_scatter=False)
    assert per_parameter(states.init) == pytest.approx(1.623, rel=0.001)
    assert per_parameter(states.steady) == pytest.approx(2.665, rel=0.001)
    assert per_parameter(states.step) == pytest.approx(4.486, rel=0.001)
    # counted: 8.487 on 64 ranks, to each of which a tensor as large as the largest is sent
    assert per_parameter(moments(3, 64, optimizer_variant="muon", reduce_scatter=False).step) == pytest.approx(
        8.487, rel=0.01
    )


def test_offload_ratio_leaves_whole_sub_groups_on_the_gpu():
    # counted: 1.109 init, 1.422 steady, 1.540 in the step: 2 of 5 sub-groups with master, gradient and states
    changes = {"offload_optimizer": "cpu", "offload_ratio": 0.5, "sub_group_size": 200_000}
    states = moments(3, **changes)
    assert per_parameter(states.init) == pytest.approx(1.109, rel=0.002)
    assert per_parameter(states.steady) == pytest.approx(1.422, rel=0.002)
    assert per_parameter(states.step) == pytest.approx(1.540, rel=0.002)


def test_plain_linear_layers_keep_their_gathered_weights():
    # counted: 4.302 in forward against 2.764 with DeepSpeed's linear function
    plain = moments(3, memory_efficient_linear=False).forward
    assert per_parameter(plain) - per_parameter(moments(3).forward) == pytest.approx(4.302 - 2.764, rel=0.06)
    checkpointed = {"activation_checkpointing": True}
    assert moments(3, memory_efficient_linear=False, **checkpointed).forward == moments(3, **checkpointed).forward


def test_adafactor_factors_whole_matrices_only():
    assert per_parameter(moments(0, optimizer_variant="adafactor").steady) == pytest.approx(6.03, rel=0.01)
    assert per_parameter(moments(2, optimizer_variant="adafactor").steady) == pytest.approx(2 + 8 / 8, rel=0.01)
