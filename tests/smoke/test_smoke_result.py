from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from builders import LLAMA_3_8B, cluster, plan, workload

from zeroconf.estimate.estimate import estimate
from zeroconf.plan.measurements import read_runs
from zeroconf.render.json import dumps, estimate_json
from zeroconf.resources import data_path
from zeroconf.smoke.losses import with_losses_judged
from zeroconf.smoke.measured import SmokeResult
from zeroconf.smoke.result import append_measurement, measurement, read_records, to_json
from zeroconf.smoke.text import to_text
from zeroconf.smoke.words import verified_words

SCHEMA = json.loads(data_path("schemas/smoke-test.schema.json").read_text(encoding="utf-8"))
RECORD = {
    "rank": 0,
    "device": "cpu",
    "phases": {"init": 3_000_000, "forward": 4_000_000, "backward": 5_000_000, "step": 4_500_000},
    "peak_allocated_bytes": 5_000_000,
    "peak_reserved_bytes": 5_000_000,
    "steady_bytes": 2_000_000,
    "host": {"peak_bytes": 400_000_000},
    "step_seconds": [0.5, 0.25],
    "update_seconds": [0.2, 0.1],
    "losses": [6.25, 5.75],
}
RESULT = SmokeResult(
    mode="real",
    outcome="fits",
    ranks=(measurement(RECORD),),
    environment={"torch": "2.13.0", "cuda": None},
    log_path="/tmp/smoke.log",  # noqa: S108  (a name, nothing is written)
    facts={
        "architecture": {"hidden_size": 128},
        "sequence_length": 128,
        "activation_checkpointing": False,
        "attention": "sdpa",
        "lora_rank": 0,
        "zero_init": True,
        "world_size": 1,
        "rank": 0,
    },
    substitutions=("bf16.enabled: true",),
)
FAILED = replace(RESULT, outcome="oom", ranks=(), explanation="rank 1 failed in backward", cure="a smaller micro batch")


@pytest.mark.parametrize("result", [RESULT, FAILED])
def test_the_json_follows_the_published_schema(result):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    values = json.loads(json.dumps(to_json(result, {"peak": 1}), allow_nan=False))
    jsonschema.validate(values, SCHEMA)
    assert values["predicted"] == {"peak": 1}
    assert to_json(result)["predicted"] is None


def test_the_schema_refuses_what_it_does_not_know():
    values = to_json(RESULT)
    values["ranks"][0]["surprise"] = 1
    with pytest.raises(jsonschema.ValidationError, match="surprise"):
        jsonschema.validate(values, SCHEMA)


def test_a_diverged_loss_is_null():
    result = replace(RESULT, ranks=(measurement(RECORD | {"losses": [6.0, float("nan"), float("inf")]}),))
    values = json.loads(json.dumps(to_json(result), allow_nan=False))
    assert values["ranks"][0]["losses"] == [6.0, None, None]
    jsonschema.validate(values, SCHEMA)


def test_the_text_shows_each_rank_and_what_to_try():
    lines = to_text(RESULT).splitlines()
    row = next(line.split() for line in lines if line.split()[:1] == ["0"])
    assert row == ["0", "2.86", "3.81", "4.77", "4.29", "1.91", "381.47", "250", "ms", "6.250", "->", "5.750"]
    failed = to_text(FAILED)
    assert "outcome: oom" in failed
    assert "rank 1 failed in backward" in failed
    assert "try: a smaller micro batch" in failed


def test_no_text_of_a_result_moves_the_cursor():
    odd = SmokeResult(
        mode="real", outcome="crash", ranks=(), log_path="a.log", explanation="\ud800\x1b]0;title\x07", facts={},
        environment={"zero_stage": 1, "optimizer": "\x1b[2J"}, substitutions=("\x1b[31m",),
    )  # fmt: skip
    assert all(line.isprintable() for line in to_text(odd).splitlines())
    assert "?]0;title?" in to_text(odd)


def test_a_rank_that_died_early_is_read_with_what_it_has(tmp_path):
    (tmp_path / "rank-1.json").write_text(json.dumps({"rank": 1, "state": "failed", "phase": "init"}))
    (record,) = read_records(tmp_path)
    early = measurement(record)
    assert (early.rank, early.peak_allocated_bytes, early.losses) == (1, 0, ())
    assert early.phases == {"init": 0, "forward": 0, "backward": 0, "step": 0}


def test_measurements_are_appended_whole_also_at_once(tmp_path):
    path = tmp_path / "deep" / "measurements.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: append_measurement(path, RESULT, {"n": n}), range(40)))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(line["ds_config"]["n"] for line in lines) == list(range(40))
    assert lines[0]["facts"]["sequence_length"] == 128


def test_without_named_hardware_no_card_and_no_time_is_made_up():
    values = estimate_json(estimate(LLAMA_3_8B, cluster(), workload(), plan(2)))
    shown = to_json(RESULT, values)["predicted"]
    assert {"gpu", "host", "traffic", "interval"} <= shown.keys()
    assert not {"step", "capacity_bytes", "verdict"} & shown.keys()
    assert not any({"link", "seconds"} & one.keys() for one in shown["traffic"]["per_collective"])
    assert shown["traffic"]["bytes_per_gpu_per_step"] == values["traffic"]["bytes_per_gpu_per_step"]
    assert to_json(replace(RESULT, named_hardware=True), values)["predicted"] == values


# a file can grow to so many bytes, as a disk may
FULL = """
import resource, sys
from pathlib import Path
from zeroconf.smoke.measured import SmokeResult
from zeroconf.smoke.result import append_measurement
path = Path(sys.argv[1])
result = SmokeResult(mode="real", outcome="fits", ranks=(), environment={}, log_path="x")
append_measurement(path, result, {})
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10,) * 2)
try:
    append_measurement(path, result, {})
except OSError as error:
    print(error.strerror, error.filename)
"""


def test_a_line_that_the_disk_has_no_room_for_is_not_begun(tmp_path):
    path = tmp_path / "measurements.jsonl"
    ran = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    assert ran.stdout == f"No space left on device {path}\n"
    (line,) = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["outcome"] == "fits"


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
def test_a_line_that_cannot_be_written_at_all_names_its_file():
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        append_measurement(Path("/dev/full"), RESULT, {})


def test_what_a_killed_run_began_spoils_no_other_line(tmp_path):
    path = tmp_path / "measurements.jsonl"
    append_measurement(path, RESULT, {"n": 1})
    with path.open("a") as file:
        file.write('{"schema": "zeroconf/smo')
    append_measurement(path, RESULT, {"n": 2})
    append_measurement(path, RESULT, {"n": 3})
    assert [run.where.rpartition(":")[2] for run in read_runs(path) or ()] == ["4", "3", "1"]


NAN = float("nan")


@pytest.mark.parametrize(
    ("losses", "ds_config", "why"),
    [
        (((6.0, 5.0), (6.0, 5.5)), {}, ""),
        # one rank's own batch may suffer a little; what all have in common falls
        (((6.0, 6.1), (6.0, 5.0)), {}, ""),
        (
            ((6.0, 5.9), (6.0, 6.2)),
            {},
            "it ran, but the loss did not fall: with a warm-up raise --steps, else look at the learning rate",
        ),
        (((6.0,), (6.0,)), {}, ""),
        (((6.0, 5.0), (6.0, NAN)), {}, "it fits in memory, but the loss is not finite from step 2 on"),
        (
            ((float("inf"), NAN),),
            {"bf16": {"enabled": True}, "fp16": {"enabled": False}},
            "it fits in memory, but the loss is not finite from step 1 on",
        ),
        (
            ((NAN, NAN),),
            {"fp16": {"enabled": True}},
            "it fits in memory, but the loss is not finite from step 1 on",
        ),
    ],
)
def test_what_the_losses_say(losses, ds_config, why):
    ranks = tuple(measurement(RECORD | {"rank": rank, "losses": each}) for rank, each in enumerate(losses))
    result = replace(RESULT, ranks=ranks, environment={"ds_config": ds_config})
    judged = with_losses_judged(result)
    finite = "finite" not in why
    assert (judged.outcome, judged.explanation) == ("fits" if finite else "not-finite", why)
    assert ("lower the learning rate" in judged.cure) is ("step 2" in why)
    # no learning rate was applied before the first step
    assert judged.cure.startswith("no update went before: look at the data") is ("step 1" in why)
    assert ("instead of fp16" in judged.cure) is bool(ds_config.get("fp16", {}).get("enabled"))
    first = to_text(judged).splitlines()[0]
    assert ("the loss fell" in first) == (not why and len(losses[0]) > 1)
    assert ("did NOT fall" in first) == (bool(why) and finite)
    assert ("next: the same on the job's GPUs" in first) == ("the loss fell" in first)
    on_gpus = replace(judged, ranks=tuple(replace(rank, device="NVIDIA H200") for rank in judged.ranks))
    assert ("next: the launch line" in to_text(on_gpus)) == ("the loss fell" in first)
    jsonschema.validate(json.loads(json.dumps(to_json(judged), allow_nan=False)), SCHEMA)
    ran = replace(result, facts={"script": "train.py"})
    assert with_losses_judged(ran).explanation == (why if "finite" in why else "")


def test_a_simulated_ranks_loss_is_not_the_jobs():
    ranks = (measurement(RECORD | {"losses": [6.0, 6.2]}),)
    judged = with_losses_judged(replace(RESULT, mode="simulated", ranks=ranks))
    assert judged.outcome == "fits"
    assert judged.explanation == "it ran; that the loss did not fall says nothing: one rank computes without the others"


def test_what_ran_is_named_with_its_shape():
    facts = {"architecture": {"name": "llama-3.2-3b"}, "sequence_length": 2048}
    environment = {"zero_stage": 2, "optimizer": "FusedAdam", "micro_batch_size": 4, "gradient_accumulation_steps": 2}
    lines = to_text(replace(RESULT, facts=facts, environment=environment | {"num_processes": 8})).splitlines()
    assert "ran as: llama-3.2-3b, 2048 tokens, stage 2, FusedAdam, micro batch 4 x accumulation 2 x 8 ranks" in lines


def test_one_step_on_one_rank_is_neither_a_fall_nor_many():
    one = replace(RESULT, ranks=(measurement(RECORD | {"losses": [6.934], "step_seconds": [0.5]}),))
    ran_as = {"zero_stage": 2, "micro_batch_size": 1, "gradient_accumulation_steps": 1, "num_processes": 1}
    text = to_text(replace(one, environment=ran_as))
    assert text.startswith("outcome: fits (1 optimizer step on 1 rank; the loss is 6.934)\n")
    assert "accumulation 1 x 1 rank\n" in text
    assert "->" not in text
    assert "1 optimizer step of DeepSpeed as 1 rank on cpu" in verified_words(one)
    assert "loss" not in verified_words(one)


def test_no_number_of_the_result_is_nan_or_infinite():
    odd = replace(
        RESULT, environment={"ds_config": {"gradient_clipping": float("inf"), "x": (NAN,)}}, relative_error=NAN
    )
    values = json.loads(dumps(to_json(odd)))
    assert values["environment"]["ds_config"] == {"gradient_clipping": None, "x": [None]}
    assert values["relative_error"] is None


def test_an_argument_that_is_no_utf8_is_printed_as_utf8():
    odd = replace(RESULT, facts={"script": "train.py", "arguments": ["\udcff.bin"], "world_size": 1})
    assert json.loads(dumps(to_json(odd)).encode())["facts"]["arguments"] == ["?.bin"]
