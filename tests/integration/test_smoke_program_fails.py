"""``smoke-test --script`` where the program, or what it is given, is at fault: each kind really run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from zeroconf.resources import data_path

sys.path.append(str(Path(__file__).parent))

from smoke_runs import processes_of

pytestmark = [pytest.mark.launch, pytest.mark.skipif(sys.platform != "linux", reason="gloo over the loopback, /proc")]

SCRIPTS = Path(__file__).parent.parent / "data/scripts"
SCHEMA = json.loads(data_path("schemas/smoke-test.schema.json").read_text(encoding="utf-8"))
FILE = {
    "train_micro_batch_size_per_gpu": 2,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 1000},
}
LATE = "import os, time, deepspeed\nos.environ['RANK'] == '1' and time.sleep(600)\ndeepspeed.init_distributed('gloo')\n"
UNEVEN = """
import os, torch, deepspeed
model = torch.nn.Linear(8, 8)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="ds.json")
for _ in range(2 if os.environ["RANK"] == "1" else 1000):
    engine.backward(engine(torch.ones(2, 8, dtype=torch.bfloat16)).float().square().mean())
    engine.step()
"""
KILLED = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.fixture
def smoke_test(tmp_path):
    """The command in a folder with a file ds.json, on one rank unless said: its answer."""
    (tmp_path / "ds.json").write_text(json.dumps(FILE), encoding="utf-8")

    def run(*arguments, ranks=1, timeout=200):
        command = [
            sys.executable,
            "-m",
            "zeroconf",
            "smoke-test",
            "--num-gpus",
            str(ranks),
            "--device",
            "cpu",
            "--json",
        ]
        ran = subprocess.run(
            [*command, "--timeout", str(timeout), *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert processes_of(tmp_path) == []
        answer = json.loads(ran.stdout)
        jsonschema.validate(answer, SCHEMA)
        assert ran.returncode == (0 if answer["outcome"] == "fits" else 1)
        return answer

    return run


def small(*arguments: str) -> list[str]:
    return ["--script", str(SCRIPTS / "small.py"), "--", "--deepspeed_config", "ds.json", *arguments]


@pytest.mark.parametrize("after", [0, 1])
def test_gradients_that_are_not_finite_are_said(smoke_test, after):
    answer = smoke_test(*small("--factor", "inf", "--after", str(after)))
    skipped = "DeepSpeed skipped 3 optimizer steps, since gradients were not finite"
    assert answer["outcome"] == "not-finite"
    assert answer["explanation"] == f"{skipped}; the loss was first not finite at step {after + 1}"
    assert answer["cure"].startswith("lower the learning rate" if after else "no update went before")
    for rank in answer["ranks"]:
        assert [loss is None for loss in rank["losses"]] == [False] * after + [True] * 3
        assert len(rank["step_seconds"]) == after
    assert not any("fp16" in line for line in answer["substitutions"])


def test_a_batch_that_the_file_does_not_know_of_is_said(smoke_test):
    answer = smoke_test(*small("--batch", "3"))
    assert answer["outcome"] == "fits"
    environment = answer["environment"]
    assert (environment["fed_batch_size"], environment["micro_batch_size"]) == (3, 2)


def test_a_program_with_too_little_data_is_told_how_much_a_step_takes(smoke_test, tmp_path):
    (tmp_path / "ds.json").write_text(json.dumps(FILE | {"gradient_accumulation_steps": 8}), encoding="utf-8")
    answer = smoke_test(*small("--batches", "4"))
    assert answer["outcome"] == "no-steps"
    assert answer["explanation"].endswith("its engine's step() never updated the weights")
    assert answer["cure"].startswith("an optimizer step takes 8 micro batches")


def test_arguments_that_contradict_the_trainers_file_are_rejected(smoke_test):
    options = ["--deepspeed", "ds.json", "--output_dir", "out", "--use_cpu"]
    answer = smoke_test("--script", str(SCRIPTS / "trainer.py"), "--", *options)
    assert answer["outcome"] == "rejected"
    assert "per_device_train_batch_size=8" in answer["explanation"]
    assert answer["cure"].startswith("pass the arguments that the file was written for")


def test_an_optimizer_in_file_and_script_is_rejected(smoke_test):
    answer = smoke_test("ds.json", "--launcher", "accelerate", "--script", str(SCRIPTS / "accelerated.py"))
    assert answer["outcome"] == "rejected"
    assert "You cannot specify an optimizer in the config file and in the code" in answer["explanation"]
    assert answer["cure"].startswith("delete the block from the file")


def test_attention_that_the_machine_lacks_is_rejected(smoke_test):
    answer = smoke_test("ds.json", "--model", "tiny", "--attention", "flash")
    assert answer["outcome"] == "rejected"
    assert "FlashAttention2 has been toggled on" in answer["explanation"]
    assert "--attention sdpa" in answer["cure"]


def test_a_rank_that_the_others_wait_for_is_named(smoke_test, tmp_path):
    (tmp_path / "late.py").write_text(LATE, encoding="utf-8")
    answer = smoke_test("--script", "late.py", ranks=2, timeout=25)
    seen = "rank 0 was in torch.distributed's rendezvous, rank 1 was in the script"
    assert (answer["outcome"], answer["explanation"]) == ("hang", f"no end after 25 s: {seen}")
    assert answer["cure"].startswith("rank 1 is late or stuck before the rendezvous")


def test_a_rank_whose_data_ends_first_is_named(smoke_test, tmp_path):
    (tmp_path / "uneven.py").write_text(UNEVEN, encoding="utf-8")
    answer = smoke_test("--script", "uneven.py", ranks=2)
    left = "rank 1 ended by itself, after 2 of 3 optimizer steps, while rank 0 was in"
    assert answer["outcome"] == "crash"
    assert answer["explanation"].startswith(left)
    assert "drop_last=True" in answer["cure"]


def test_a_killed_rank_says_how_much_memory_was_free(smoke_test, tmp_path):
    (tmp_path / "killed.py").write_text(KILLED, encoding="utf-8")
    answer = smoke_test("--script", "killed.py")
    assert answer["outcome"] == "host-oom"
    assert "the least that was seen free is" in answer["explanation"]
