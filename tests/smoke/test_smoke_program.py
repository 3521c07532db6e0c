"""A user's program under the watch, up to DeepSpeed: but for the last no rank imports torch, so they start at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import records

from zeroconf.errors import InputError
from zeroconf.smoke.command import WORKER, launch_command
from zeroconf.smoke.outcome import judge
from zeroconf.smoke.program import smoke_test_program
from zeroconf.smoke.result import read_records

RENDEZVOUS = records.RENDEZVOUS


@pytest.fixture
def rank(tmp_path):
    """Runs a program's text as rank 0: its record, its log and exit code."""

    def run(text, *arguments, launcher=()):
        folder = tmp_path / "project"
        folder.mkdir()
        (folder / "train.py").write_text(text, encoding="utf-8")
        (folder / "records.py").write_text("NAME = 'the user'\n", encoding="utf-8")
        job = {
            "script": str(folder / "train.py"), "arguments": arguments, "folder": str(folder), "steps": 3,
            "device": "cpu", "counter": None, "results": str(tmp_path), "mode": "real", "rank": 0,
        }  # fmt: skip
        (tmp_path / "job.json").write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, str(WORKER / "rank.py"), *launcher, "--job", str(tmp_path / "job.json")]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        (record,) = read_records(tmp_path)
        return record, ran.stdout + ran.stderr, ran.returncode

    return run


def verdict(record, log="", **options):
    return judge([record], num_processes=1, log=log, **({"timed_out": False, "timeout_seconds": 5} | options))


def test_it_runs_as_python_runs_it(rank):
    text = (
        "import sys, os, records\n"
        "print(__name__, __file__, sys.argv, sys.path[0], os.getcwd(), records.NAME)\n"
        "print(sorted(name for name in sys.modules if name in {'meters', 'watch', 'guard', 'program'}))\n"
    )
    record, log, _ = rank(text, "--job", "mine", launcher=["--local_rank=0"])
    script = record_folder(log)
    assert log == (
        f"__main__ {script}/train.py ['{script}/train.py', '--local_rank=0', '--job', 'mine'] {script} {script} "
        "the user\n[]\n"
    )
    assert record["outcome"] == "no-steps"


def record_folder(log):
    return log.split()[1].removesuffix("/train.py")


def test_a_program_without_deepspeed_is_told_how_it_gets_it(rank):
    record, _, code = rank("print('trained')")
    assert code == 1
    found = verdict(record)
    assert found.outcome == "no-steps"
    assert found.explanation.endswith("without an optimizer step of DeepSpeed: it never called deepspeed.initialize")
    assert "--deepspeed FILE among the script's arguments" in found.cure


@pytest.mark.parametrize(
    ("text", "explanation", "cure"),
    [
        ("import nothing_like_it", "ModuleNotFoundError: No module named 'nothing_like_it'", "install it there"),
        ("import sys; sys.exit('no data in /data')", "it left with exit code 1: no data in /data", "all that was said"),
        ("import sys; sys.exit(3)", "it left with exit code 3", "all that was said"),
        ("import sys; sys.exit(['no', 'data'])", "it left with exit code 1: ['no', 'data']", "all that was said"),
        ("raise RuntimeError('\\ud800')", "RuntimeError: ?", "whole traceback"),
        ("raise RuntimeError('\\x1b]0;title\\x07')", "RuntimeError: ?]0;title?", "whole traceback"),
        ("raise RuntimeError('z' * 100_000)", "zzz...", "whole traceback"),
        ("raise SystemExit('\\x1b[2J' + 'z' * 100_000)", "exit code 1: ?[2Jzzz", "all that was said"),
        (
            "import argparse; argparse.ArgumentParser(prog='train.py').parse_args()",
            "it left with exit code 2: train.py: error: unrecognized arguments: --local_rank=0",
            "use --launcher torchrun",
        ),
        ("raise ValueError('Your setup needs to assign use_cpu')", "ValueError", "whole traceback"),
        ("raise ValueError('You need to assign use_cpu')", "wants to be told", "add --use_cpu to the script's arg"),
        ("1 / 0", "rank 0 failed in the script: ZeroDivisionError", "whole traceback"),
        ("x = [0] * 10**18", "MemoryError", "more host memory"),
    ],
)
def test_a_program_that_fails_is_explained(rank, text, explanation, cure):
    record, log, code = rank(text, launcher=["--local_rank=0"] if "argparse" in text else [])
    assert code == 1
    found = verdict(record, log)
    assert found.outcome == ("host-oom" if "Memory" in explanation else "crash")
    assert explanation in found.explanation
    assert cure in found.cure
    assert found.explanation.isprintable()
    assert len(found.explanation) < 700
    assert len(record["message"]) <= 2000


def test_the_log_has_all_that_a_program_says_when_it_leaves(rank):
    _, log, _ = rank("raise SystemExit('z' * 100_000)")
    assert log == "z" * 100_000 + "\n"


def test_a_launchers_traceback_is_not_the_programs(rank):
    record, log, _ = rank("import sys; sys.exit(7)")
    launchers = "Traceback (most recent call last):\ntorch.distributed.elastic...ChildFailedError: \n"
    assert verdict(record, log + launchers).cure == "the log holds all that was said"
    assert "traceback" not in verdict({**record, "state": "running"}, launchers, exit_code=1).cure


def test_a_program_that_ends_well_by_exit_ended(rank):
    record, _, _ = rank("import sys; sys.exit(0)")
    assert record["outcome"] == "no-steps"


def test_a_program_that_leaves_past_pythons_ends_is_noted_and_its_forks_are_not(rank):
    record, _, code = rank("import os\nif os.fork(): os.wait(); os._exit(0)\nos._exit(7)")
    assert (code, record["outcome"]) == (0, "no-steps")


def test_a_program_that_leaves_so_with_a_code_has_crashed(rank):
    record, _, code = rank("import os; os._exit(7)")
    assert (code, record["outcome"], record["message"]) == (7, "crash", "it left with exit code 7")


def test_a_warning_is_not_what_a_program_said_last(rank):
    text = "import sys, warnings\nprint('no data', file=sys.stderr)\nwarnings.warn('old\\nnews', FutureWarning)\n"
    record, log, _ = rank(text + "sys.exit(3)")
    assert log.endswith("FutureWarning: old\nnews\n  warnings.warn('old\\nnews', FutureWarning)\n")
    assert record["message"] == "it left with exit code 3: no data"


def hang(*phases, num_processes=2):
    found = [{"rank": rank, "state": "running", "phase": phase, "step": 0} for rank, phase in enumerate(phases)]
    return judge(found, num_processes=num_processes, log="", timed_out=True, timeout_seconds=5)


def test_time_that_runs_out_before_deepspeed_says_so():
    found = hang("the script", num_processes=1)
    assert (found.outcome, found.explanation) == (
        "hang",
        "no end after 5 s, and deepspeed.initialize had not been called: rank 0 was in the script",
    )
    assert found.cure.startswith("raise --timeout if it was still loading")
    assert "the Trainer needs --deepspeed FILE" in found.cure


@pytest.mark.parametrize(
    ("phases", "cure"),
    [
        ((RENDEZVOUS, "the script"), "rank 1 is late or stuck before the rendezvous, where the others wait"),
        ((RENDEZVOUS,), "rank 1 is late or stuck before the rendezvous"),  # not even started
        ((RENDEZVOUS, RENDEZVOUS), "all ranks came to the rendezvous and do not reach each other"),
    ],
)
def test_ranks_that_wait_for_others_at_the_rendezvous_are_named(phases, cure):
    found = hang(*phases)
    assert found.outcome == "hang"
    assert found.explanation.startswith(f"no end after 5 s: rank 0 was in {RENDEZVOUS}")
    assert cure in found.cure
    assert "--deepspeed" not in found.cure


@pytest.mark.parametrize(
    ("record", "cure"),
    [
        ({}, "the Trainer needs --deepspeed FILE"),
        ({"environment": {"zero_stage": 2, "gradient_accumulation_steps": 8}}, "takes 8 micro batches"),
        (
            {"environment": {"zero_stage": 2}, "skipped": {"searching": 2}},
            "give it more steps, lower fp16.initial_scale_power",
        ),
    ],
)
def test_a_program_without_a_step_is_told_what_it_lacks(record, cure):
    failed = {"rank": 0, "state": "failed", "phase": "forward", "outcome": "no-steps", "message": "x", "failed_at": 1}
    assert cure in verdict(failed | record).cure


def test_what_would_not_run_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(InputError, match=r"there is no program .*train\.py; --script takes the path of a Python file"):
        smoke_test_program(tmp_path / "train.py")
    with pytest.raises(
        InputError, match=r"run\.sh is a shell script; --script takes the Python program that it starts"
    ):
        smoke_test_program(tmp_path / "run.sh")
    (tmp_path / "train.py").touch()
    with pytest.raises(
        InputError, match=r"reads its own configuration, and .*ds\.json would not reach it; give it among"
    ):
        smoke_test_program(tmp_path / "train.py", ["--deepspeed"], config=tmp_path / "ds.json")
    # accelerate launch alone would train without DeepSpeed
    with pytest.raises(InputError, match=r"there is none; give CONFIG, .* or use --launcher torchrun"):
        smoke_test_program(tmp_path / "train.py", launcher="accelerate")


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        (("--deepspeed", "--deepspeed_config", "mine.json"), "--deepspeed_config mine.json"),
        (("--epochs", "1", "--deepspeed=mine.json"), "--deepspeed mine.json"),
    ],
)
def test_a_configuration_beside_the_scripts_own_names_what_is_read(tmp_path, arguments, read):
    (tmp_path / "train.py").touch()
    with pytest.raises(InputError, match=rf"reads the file of its own arguments \({read}\), and .*ds\.json would not"):
        smoke_test_program(tmp_path / "train.py", arguments, config=tmp_path / "ds.json")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--model", "tiny"), "--model has no effect here: the script brings its own model"),
        (("--dry-run",), "--dry-run has no effect here"),
        (("--until-fits",), "--until-fits has no effect here"),
        (("ds.json",), "reads its own configuration"),
    ],
)
def test_options_without_effect_on_a_program_are_refused(run, tmp_path, options, sentence):
    (tmp_path / "train.py").touch()
    code, _, err = run("smoke-test", *options, "--script", "train.py", "--", "--epochs", "1")
    assert code == 2
    assert sentence in err


def test_without_a_configuration_and_a_program_there_is_nothing_to_test(run):
    code, _, err = run("smoke-test", "--model", "tiny")
    assert (code, err) == (2, "error: a ds_config.json, an Accelerate YAML or --script is missing; give one of them\n")
    # without --script, dashes only end the options
    code, _, err = run("smoke-test", "--model", "tiny", "--", "-odd.json")
    assert code == 2
    assert "-odd.json: there is no such file" in err


def test_accelerate_launch_gets_the_users_file(tmp_path):
    def command(config):
        return launch_command("accelerate", "python", num_processes=2, port=1, scratch=tmp_path, config=config)

    assert "--config_file=/here/accelerate.yaml" in command("/here/accelerate.yaml")
    assert f"--config_file={tmp_path / 'accelerate.yaml'}" in command("/here/ds.json")
    assert "--deepspeed_config_file=/here/ds.json" in command("/here/ds.json")
    assert not any("ds.json" in word for word in command(None))


TWO_ENGINES = """
import json, os, torch, deepspeed
os.environ["LOCAL_RANK"] = "0"
torch.distributed.init_process_group("gloo", init_method=f"file://{os.getcwd()}/store", rank=0, world_size=1)
FILE = {"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"torch_adam": True}}}
def engine():
    model = torch.nn.Linear(8, 8)
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config=FILE)[0]
def step(engine, seen):
    loss = engine(torch.ones(2, 8)).square().mean()
    seen()
    engine.backward(loss)
    engine.step()
    seen()
def seen():
    values = json.load(open("../rank-0.json"))
    print("seen:", values["phase"], values["step"], values["after"])
first, second = engine(), engine()
step(first, seen)
while True:
    step(second, int)
"""


@pytest.mark.launch
def test_between_steps_a_rank_is_after_one_and_a_second_engine_does_not_step_without_end(rank):
    record, log, code = rank(TWO_ENGINES)
    assert [line for line in log.splitlines() if line.startswith("seen:")] == ["seen: forward 1 0", "seen: forward 2 1"]
    assert (code, record["state"], len(record["step_seconds"])) == (0, "done", 1)
    ended = "the script was ended after 1 of 3 steps of the engine that stepped first: others did 30"
    assert record["substitutions"] == [ended]
