"""What a dry run that breaks off says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import LLAMA_3_8B, cluster, plan, workload

from zeroconf.estimate.estimate import estimate
from zeroconf.smoke.measured import SmokeResult
from zeroconf.smoke.outcome import explain
from zeroconf.smoke.predict import against_card, fall_back

PREDICTED = estimate(LLAMA_3_8B, cluster(), workload(), plan(2))


def broken(message: str, mode="dry-run") -> SmokeResult:
    verdict = explain("crash", message, "rank 0 failed in forward")
    return SmokeResult(
        mode=mode,
        outcome=verdict.outcome,
        ranks=(),
        environment={},
        log_path="",
        predicted=PREDICTED,
        explanation=verdict.explanation,
        cure=verdict.cure,
    )


def test_the_estimate_speaks_for_what_does_not_run_on_fake_tensors():
    result = against_card(fall_back(broken("TypeError: cannot unpack")), cluster().gpu)
    fits = PREDICTED.gpu.peak_allocated_bytes <= cluster().gpu.memory_bytes
    assert result.outcome == ("fits" if fits else "does-not-fit")
    assert "a dry run cannot run this (rank 0 failed in forward: TypeError: cannot unpack)" in result.explanation
    assert "what follows is the estimate" in result.explanation


def test_without_a_card_it_only_ran():
    result = against_card(replace(broken("x"), outcome="fits"), None)
    assert result.outcome == "ran"
    assert "--hardware" in result.explanation


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_plan_without_checkpointing_is_told_of_it_first(checkpointing):
    predicted = replace(PREDICTED, plan=replace(PREDICTED.plan, activation_checkpointing=checkpointing))
    small = replace(cluster().gpu, memory_bytes=10**9)
    result = against_card(replace(broken("x"), outcome="fits", predicted=predicted), small)
    assert result.outcome == "does-not-fit"
    assert result.cure.startswith("--activation-checkpointing full") is not checkpointing


@pytest.mark.parametrize(
    "result", [broken("ValueError: flash attention takes bf16 and fp16, not fp32"), broken("x", "real")]
)
def test_a_known_cause_and_a_real_run_stay_crashes(result):
    assert fall_back(result) is result
