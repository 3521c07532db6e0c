"""What a dry run that breaks off says."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from builders import LLAMA_3_8B, cluster, plan, workload

from zeroconf.estimate.estimate import estimate
from zeroconf.inputs.ds_config import parse_config
from zeroconf.smoke import trial
from zeroconf.smoke.job import SmokeJob
from zeroconf.smoke.measured import SmokeResult
from zeroconf.smoke.outcome import judge
from zeroconf.smoke.predict import against_card, fall_back, processors, with_prediction
from zeroconf.smoke.result import measurement

PREDICTED = estimate(LLAMA_3_8B, cluster(), workload(), plan(2))


def broken(message: str, outcome: str = "crash") -> SmokeResult:
    """The result of a rank that failed with a message."""
    failed = {"rank": 0, "state": "failed", "phase": "forward", "step": 1, "failed_at": 1.0}
    records = [failed | {"outcome": outcome, "message": message}]
    verdict = judge(records, num_processes=1, timed_out=False, timeout_seconds=9, log="")
    return SmokeResult(
        mode="dry-run",
        outcome=verdict.outcome,
        ranks=(),
        environment={},
        log_path="",
        predicted=PREDICTED,
        explanation=verdict.explanation,
        cure=verdict.cure,
    )


def test_the_estimate_speaks_for_what_a_dry_run_cannot_show():
    result = against_card(fall_back(broken("fake tensors have no values", "unsupported")), cluster())
    fits = PREDICTED.gpu.peak_allocated_bytes <= cluster().gpu.memory_bytes
    assert result.outcome == ("fits" if fits else "does-not-fit")
    assert "a dry run cannot run this: fake tensors have no values; what follows is the estimate" in result.explanation


def test_without_a_card_it_only_ran():
    result = against_card(replace(broken("x"), outcome="fits"), None)
    assert result.outcome == "ran"
    assert "--hardware" in result.explanation


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_plan_without_checkpointing_is_told_of_it_first(checkpointing):
    predicted = replace(PREDICTED, plan=replace(PREDICTED.plan, activation_checkpointing=checkpointing))
    small = replace(cluster(), gpu=replace(cluster().gpu, memory_bytes=10**9))
    result = against_card(replace(broken("x"), outcome="fits", predicted=predicted), small)
    assert result.outcome == "does-not-fit"
    assert result.cure.startswith("--activation-checkpointing full") is not checkpointing


@pytest.mark.parametrize(
    ("shape", "cure"),
    [
        (plan(0), "zero_optimization.stage 1 or higher, which"),
        (plan(2), "zero_optimization.offload_optimizer or zero_optimization.stage 3;"),
        (plan(3), "zero_optimization.offload_optimizer; else"),
        (plan(3, offload_optimizer="cpu"), "`zeroconf generate`"),
    ],
)
def test_a_peak_without_activations_is_told_of_no_recomputation(shape, cure):
    gpu = PREDICTED.gpu
    step = replace(gpu.moments["step"], temporaries=10**12)
    predicted = replace(PREDICTED, plan=shape, gpu=replace(gpu, moments={**gpu.moments, "step": step}))
    result = against_card(replace(broken("x"), outcome="fits", predicted=predicted), cluster())
    assert "the peak, in step" in result.explanation
    assert result.cure.startswith(cure)


@pytest.mark.parametrize("message", ["ValueError: flash attention takes bf16, not fp32", "TypeError: no such thing"])
def test_any_other_failure_stays_a_crash(message):
    result = fall_back(broken(message))
    assert result.outcome == "crash"
    assert message in result.explanation
    assert result.cure


def test_a_run_that_goes_on_the_card_must_go_into_the_node_too():
    roomy = replace(cluster(), gpu=replace(cluster().gpu, memory_bytes=10**12), host_memory_bytes=10**9)
    ran = replace(broken("x"), outcome="fits", explanation="")
    result = against_card(ran, roomy)
    assert result.outcome == "does-not-fit"
    assert "ranks of a node need" in result.explanation
    assert result.cure
    assert against_card(ran, replace(roomy, host_memory_bytes=10**13)).outcome == "fits"
    unknown = replace(roomy, host_memory_bytes=None)
    plain = against_card(ran, unknown)
    assert plain.outcome == "fits"
    assert "of host memory" not in plain.explanation
    # what is offloaded asks for more than every job does
    offloaded = replace(ran, predicted=replace(PREDICTED, plan=replace(PREDICTED.plan, offload_optimizer="cpu")))
    told = against_card(offloaded, unknown)
    assert told.outcome == "fits"
    assert "of host memory, and how much it has is not known" in told.explanation


@pytest.mark.parametrize(("model", "of_the_project"), [("pythia-70m", True), ("tiny", False)])
def test_a_project_files_workload_is_the_jobs_but_not_that_of_tiny(tmp_path, monkeypatch, model, of_the_project):
    class Started(Exception):  # noqa: N818  (no error: it hands out what would have run)
        pass

    def start(job, **_options):
        raise Started(job)

    monkeypatch.setattr(trial, "run_smoke_test", start)
    lines = ["seq_len = 64", 'attention = "eager"', 'activation_checkpointing = "full"', "lora_rank = 4"]
    (tmp_path / "zeroconf.toml").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "ds.json").write_text('{"train_micro_batch_size_per_gpu": 1}', encoding="utf-8")
    given = {"model": model, "dry_run": True, "world_size": 2, "project": tmp_path}
    for options, expected in (
        ({}, (64, "eager", True, 4) if of_the_project else (128, "sdpa", False, 0)),
        (
            {"sequence_length": 32, "attention": "sdpa", "activation_checkpointing": False, "lora_rank": 0},
            (32, "sdpa", False, 0),
        ),
    ):
        with pytest.raises(Started) as started:
            trial.smoke_test(tmp_path / "ds.json", **given, **options)
        job = started.value.args[0]
        assert (job.sequence_length, job.attention, job.activation_checkpointing, job.lora_rank) == expected


@pytest.mark.parametrize(("steps", "outcome"), [(1, "fits"), (2, "fits"), (2, "not-finite")])
def test_a_peak_is_compared_where_two_steps_could_show_it(steps, outcome):
    rank = measurement({"rank": 0, "phases": {"step": 10**9}, "peak_allocated_bytes": 10**9})
    ran = replace(broken("x"), outcome=outcome, ranks=(rank,))
    file = parse_config({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}}, "ds.json")
    job = SmokeJob(
        ds_config=file.content, architecture=asdict(trial.TINY), sequence_length=128, steps=steps, world_size=1
    )
    result = with_prediction(ran, job, file, trial.TINY, processors(1), None)
    assert (result.relative_error is None) == ((steps, outcome) != (2, "fits"))
    assert any(line.startswith("one step") for line in result.substitutions) == (steps == 1)
