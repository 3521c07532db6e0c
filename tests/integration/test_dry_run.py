"""The dry run: against counted allocations of the same program on real tensors, and as a whole command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from zeroconf.resources import data_path

ORACLE = Path(__file__).parents[2] / "benchmarks" / "memory_oracle" / "run.py"
CONFIG = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": 4,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 100_000},
}
PARAMETERS = 1_066_112  # of "tiny"


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    """The quick cases of the memory oracle by name, from one start of Python."""
    output = tmp_path_factory.mktemp("oracle") / "rows.json"
    ran = subprocess.run(
        [sys.executable, str(ORACLE), "--quick", "--output", str(output)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return {row["case"]: row for row in json.loads(output.read_text(encoding="utf-8"))["cases"]}


@pytest.mark.launch
@pytest.mark.skipif(sys.platform != "linux", reason="the counting allocator is compiled for Linux")
def test_it_counts_what_is_allocated(oracle):
    assert len(oracle) == 8
    for name, row in oracle.items():
        assert "failed" not in row, row
        for phase, error in row["errors"].items():
            assert abs(error) <= (0.005 if phase == "steady" else 0.02), (name, phase, row["dry"], row["counted"])


def dry_run(folder, *arguments, config=CONFIG):
    (folder / "ds_config.json").write_text(json.dumps(config), encoding="utf-8")
    command = [sys.executable, "-m", "zeroconf", "smoke-test", "ds_config.json", "--model", "tiny", "--dry-run"]
    return subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.launch
def test_the_command_answers_by_phase_and_part(tmp_path):
    ran = dry_run(tmp_path, "--world-size", "8", "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    answer = json.loads(ran.stdout)
    jsonschema.validate(answer, json.loads(data_path("schemas/smoke-test.schema.json").read_text(encoding="utf-8")))
    assert (answer["mode"], answer["outcome"], answer["environment"]["num_processes"]) == ("dry-run", "ran", 8)
    (rank,) = answer["ranks"]
    # bf16 weights whole; fp32 weights and two moments of an eighth
    assert rank["steady_bytes"] == pytest.approx(PARAMETERS * (2 + 12 / 8), rel=0.01)
    for phase, parts in rank["parts"].items():
        assert sum(parts.values()) == rank["phases"][phase]
        assert parts["parameters"] >= 2 * PARAMETERS
    assert rank["step_seconds"] == rank["losses"] == []
    substituted = " ".join(answer["substitutions"])
    assert "FusedAdam" in substituted
    assert "2 micro batches for 4" in substituted


@pytest.mark.launch
@pytest.mark.parametrize(
    ("micro_batch_size", "outcome", "code"),
    # logits of 256 x 4096 tokens x 1024 words in fp32: 4.3 GB a copy, of the 16 GB of a T4
    [(1, "fits", 0), (256, "does-not-fit", 1)],
)
def test_a_card_gives_a_verdict(tmp_path, micro_batch_size, outcome, code):
    config = CONFIG | {"train_micro_batch_size_per_gpu": micro_batch_size}
    ran = dry_run(tmp_path, "--hardware", "8xT4-16GB", "--seq-len", "4096", "--json", config=config)
    assert ran.returncode == code, ran.stdout + ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["outcome"] == outcome
    assert "T4" in answer["explanation"]
    assert bool(answer["cure"]) == (outcome == "does-not-fit")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "a dry run needs the number of ranks"),
        (("--hardware", "8xA100-80GB", "--world-size", "4"), "--world-size 4 contradicts 8xA100-80GB"),
        (("--hardware", "A100-80GB"), "has no count"),
    ],
)
def test_the_ranks_must_be_known_and_agree(tmp_path, arguments, sentence):
    ran = dry_run(tmp_path, *arguments)
    assert ran.returncode == 2
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr
