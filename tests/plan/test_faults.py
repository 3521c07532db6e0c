"""What a stated release computes wrongly is not chosen, and the reason is told; a pinned stage is obeyed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from builders import A100_80, LLAMA_3_8B, cluster, workload
from with_facts import config

from zeroconf import api
from zeroconf.faulty import Span
from zeroconf.inputs.ds_config import parse_config
from zeroconf.plan.choose import decide
from zeroconf.plan.faults import may_overlap
from zeroconf.plan.of_file import FilePlan
from zeroconf.types import Facts, Plan, Versions

CASE = {"model": "7B", "hardware": "8xA100-40GB"}


def made(release, **options):
    facts, _ = api.load_facts({**CASE, "deepspeed_version": release, **options})
    result = api.generate(facts)
    return result.decision, json.loads(result.files["ds_config.json"])


@pytest.mark.parametrize(("release", "stage"), [("0.17.5", 2), ("0.17.6", 3), ("0.18.2", 3), ("0.18.3", 2)])
def test_stage_2_is_not_chosen_where_its_gradients_are_wrong(release, stage):
    decision, written = made(release)
    assert written["zero_optimization"]["stage"] == stage
    told = decision.reasons[0].because
    assert ("stage 2 computes wrong gradients in DeepSpeed 0.17.6 to 0.18.2 (ZC603)" in told) == (stage == 3)
    wrong = {one.plan.stage for one in decision.candidates if one.rejected_by == "release"}
    assert wrong == ({2} if stage == 3 else set())


def test_a_pinned_stage_is_obeyed_with_the_warning():
    decision, written = made("0.18.2", zero_stage=2)
    assert written["zero_optimization"]["stage"] == 2
    assert any("ZC603" in note for note in decision.notes)


@pytest.mark.parametrize(
    ("release", "overlaps", "checks"),
    [("0.16.9", False, None), ("0.18.9", False, True), ("0.19.0", True, True), ("0.19.3", True, None)],
)
def test_overlap_and_the_check_of_overflow_are_the_releases(release, overlaps, checks):
    _, written = made(release, zero_stage=2)
    assert written["zero_optimization"]["overlap_comm"] is overlaps
    assert written["bf16"].get("check_grad_overflow") is checks


@pytest.mark.parametrize(("release", "size"), [("0.18.2", 1), ("0.18.3", 8)])
def test_weights_are_partitioned_inside_a_node_only_where_they_are_fresh(release, size):
    decision, written = made(release, model="30B", hardware="4x8xA100-80GB", network="10gbe")
    assert written["zero_optimization"].get("zero_hpz_partition_size", 1) == size
    assert ("ZC601" in decision.reasons[0].because) == (size == 1)


def test_fp32_accumulation_at_stage_1_is_avoided_where_a_micro_batch_is_lost():
    given = Plan(stage=2, micro_batch_size=1, gradient_accumulation_steps=1, fp32_gradients=True)
    large = cluster(gpu=replace(A100_80, memory_bytes=180 * 10**9))
    facts = Facts(model=LLAMA_3_8B, cluster=large, workload=workload(), given=given)
    wrong = {release: rejected(replace(facts, versions=of(release))) for release in ((0, 18, 9), (0, 19, 0))}
    assert wrong == {(0, 18, 9): {(1, "none")}, (0, 19, 0): set()}


def test_what_only_a_wrong_plan_fits_is_that_plan_with_the_warning():
    """Tensor parallelism has no stage 3 before 0.19.4, and stage 1 needs a larger card."""
    work = workload(tensor_parallel_size=2, offload="none", activation_checkpointing="full", micro_batch_size=1)
    facts = Facts(model=LLAMA_3_8B, cluster=cluster(), workload=work, versions=of((0, 18, 2)))
    most = {one.plan.stage: one.estimate.gpu.high_bytes for one in decide(facts).candidates}
    assert most[2] < most[1]
    card = replace(facts.cluster.gpu, memory_bytes=(most[1] + most[2]) // 2)
    decision = decide(replace(facts, cluster=replace(facts.cluster, gpu=card)))
    assert decision.chosen.plan.stage == 2
    assert decision.chosen.rejected_by is None


def of(release):
    """The versions of a DeepSpeed."""
    return Versions(deepspeed=release, accelerate=(1, 15, 0))


def rejected(facts):
    """Stage and offload of what the release computes wrongly."""
    return {(one.plan.stage, one.plan.offload) for one in decide(facts).candidates if one.rejected_by == "release"}


@pytest.mark.parametrize(("release", "is_offered"), [("0.18.2", False), ("0.18.3", True)])
def test_the_linter_offers_no_cure_that_the_release_computes_wrongly(release, is_offered):
    facts, _ = api.load_facts({"model": "1B", "hardware": "8xA100-80GB", "deepspeed_version": release})
    file = parse_config(config(3), "ds.json", zero_init=True)
    assert (FilePlan(facts, file).alternative(stage=2) is not None) == is_offered


def test_a_span_of_releases():
    span = Span((0, 17, 6), (0, 18, 2))
    assert [release in span for release in ((0, 17, 5), (0, 17, 6), (0, 18, 2), (0, 18, 3))] == [
        False,
        True,
        True,
        False,
    ]
    assert str(span) == "0.17.6 to 0.18.2"
    assert str(Span((), (0, 18, 2))) == "up to 0.18.2"
    assert [may_overlap((0, 18, 9), stage) for stage in range(4)] == [False, False, False, True]
