"""``smoke-test --until-fits``: which configuration follows one that did not fit. Only the runs are made up."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from zeroconf.resources import data_path
from zeroconf.smoke import trial
from zeroconf.smoke.measured import RankMeasurement, SmokeResult
from zeroconf.until_fits import MOST_TRIES

ZERO = dict.fromkeys(("init", "forward", "backward", "step"), 0)
SCHEMA = json.loads(data_path("schemas/smoke-test.schema.json").read_text(encoding="utf-8"))
FILE = {
    "train_micro_batch_size_per_gpu": 8,
    "gradient_accumulation_steps": 1,
    "bf16": {"enabled": True},
    "gradient_clipping": 1.0,
    "zero_optimization": {"stage": 1},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
}


@pytest.fixture
def runs(monkeypatch):
    """Runs end with these outcomes, one after another; what was run is kept."""

    def ending(*outcomes, explanation="it is too much"):
        kept, left = [], list(outcomes)

        def run(job, **_options):
            kept.append(job)
            outcome = left.pop(0)
            rank = RankMeasurement(
                rank=0, device="cpu", phases=ZERO | {"backward": 2**30}, peak_allocated_bytes=2**30,
                peak_reserved_bytes=0, steady_bytes=0, host_peak_bytes=0, step_seconds=(2.0, 1.0),
                update_seconds=(), losses=(6.0, 5.5),
            )  # fmt: skip
            return SmokeResult(
                mode=job.mode, outcome=outcome, ranks=(rank,), environment={"deepspeed": "0.19.8", "device": "cpu"},
                log_path="", facts=job.facts, explanation="" if outcome == "fits" else explanation,
            )  # fmt: skip

        monkeypatch.setattr(trial, "run_smoke_test", run)
        return kept

    return ending


def call(run, *options, hardware=("--dry-run", "--hardware", "8xA100-40GB"), model="llama-3.1-8b"):
    Path("ds.json").write_text(json.dumps(FILE))
    return run("smoke-test", "ds.json", "--model", model, *hardware, "--until-fits", *options)


def global_batch(job):
    return job.micro_batch_size * job.gradient_accumulation_steps


def test_the_next_is_what_generate_would_choose_and_the_proven_file_says_so(run, runs, monkeypatch):
    jobs = runs("oom", "fits")
    monkeypatch.setattr(trial, "against_card", lambda result, _cluster: result)
    code, out, err = call(run, "-o", "proven.json")
    assert code == 0, err
    given, chosen = jobs
    assert (given.ds_config["zero_optimization"]["stage"], given.activation_checkpointing) == (1, False)
    assert (chosen.ds_config["zero_optimization"]["stage"], chosen.activation_checkpointing) == (3, True)
    assert global_batch(chosen) == global_batch(given)
    assert "try 2 of at most 5: stage 3" in err
    assert "1. as given: oom: it is too much" in out
    assert "gradient_checkpointing, which no file can switch on" in out
    assert out.endswith("\nWrote proven.json\n")
    proven = json.loads(Path("proven.json").read_text())
    assert proven["_zeroconf"]["verified"].startswith("dry run of DeepSpeed 0.19.8")
    assert proven["optimizer"] == FILE["optimizer"]
    assert json.loads(Path("ds.json").read_text()) == FILE


def test_each_plan_is_predicted_to_need_less_than_the_one_before_and_the_tries_are_bounded(run, runs, monkeypatch):
    jobs = runs(*["oom"] * MOST_TRIES)
    monkeypatch.setattr(trial, "against_card", lambda result, _cluster: result)
    code, out, _ = call(run, "-o", "proven.json", "--json")
    assert code == 1
    answer = json.loads(out)
    jsonschema.validate(answer, SCHEMA)
    assert len(answer["tries"]) == len(jobs) <= MOST_TRIES
    assert len(jobs) > 2
    assert "configurations were tried; zeroconf generate" in answer["cure"]
    assert not Path("proven.json").exists()
    plans = [json.dumps([job.ds_config, job.activation_checkpointing]) for job in jobs]
    assert len(set(plans)) == len(plans)


def test_without_a_known_card_the_ladder_is_climbed_down(run, runs):
    jobs = runs("oom", "oom", "oom", "fits")
    code, out, err = call(run, hardware=("--device", "cpu"), model="tiny")
    assert code == 0, err
    assert [job.micro_batch_size for job in jobs] == [8, 1, 1, 1]
    assert [job.activation_checkpointing for job in jobs] == [False, False, True, True]
    assert jobs[-1].ds_config["zero_optimization"] == {"stage": 2}
    assert {global_batch(job) for job in jobs} == {8}
    assert "4. stage 2: fits" in out


@pytest.mark.parametrize("outcome", ["crash", "rejected", "hang", "not-finite"])
def test_what_a_smaller_plan_would_not_mend_is_not_tried_again(run, runs, outcome):
    jobs = runs(outcome)
    code, out, _ = call(run, "-o", "proven.json", hardware=("--device", "cpu"), model="tiny")
    assert (code, len(jobs)) == (1, 1)
    assert f"outcome: {outcome}" in out
    assert not Path("proven.json").exists()


def test_what_was_asked_for_stays(run, runs, monkeypatch):
    jobs = runs("does-not-fit", "fits")
    monkeypatch.setattr(trial, "against_card", lambda result, _cluster: result)
    code, _, err = call(run, "--activation-checkpointing", "none", model="qwen2.5-1.5b")
    assert code == 0, err
    assert [job.activation_checkpointing for job in jobs] == [False, False]


def test_a_file_is_never_written_over_and_refusals_come_first(run, runs):
    jobs = runs()
    for options, sentence in (
        (("-o", "ds.json", "--force"), "ds.json is the configuration itself, which stays as it is"),
        (("-o", "there.json"), "--force"),
    ):
        Path("there.json").write_text("{}")
        code, _, err = call(run, *options)
        assert code == 2
        assert sentence in err
    code, _, err = run("smoke-test", "ds.json", "--model", "tiny", "-o", "new.json")
    assert (code, err) == (
        2,
        "error: -o has no effect here: it takes the configuration that --until-fits finds; leave it out\n",
    )
    assert jobs == []


def test_a_dry_run_has_to_know_the_card(run, runs):
    runs("fits")
    code, _, err = call(run, hardware=("--dry-run", "--world-size", "8"))
    assert code == 2
    assert "--until-fits needs to know the card; give --hardware" in err


def test_what_was_measured_is_said_in_the_proven_file(run, runs):
    runs("fits")
    code, _, err = call(run, "-o", "proven.json", hardware=("--device", "cpu"), model="tiny")
    assert code == 0, err
    said = json.loads(Path("proven.json").read_text())["_zeroconf"]["verified"]
    assert said.startswith("2 optimizer steps of DeepSpeed 0.19.8 as 1 rank on cpu: peak 1.00 GiB (estimate ")
    assert said.endswith(", 1 s a step, loss 6.000 to 5.500")
