"""The GPU benchmark's command line; what it measures needs a GPU."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from zeroconf import api
from zeroconf.smoke.trial import num_local_gpus

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "benchmarks" / "gpu_memory.py"


def run(*words):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(SCRIPT), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.skipif(num_local_gpus() > 0, reason="this machine has a GPU")
def test_without_a_gpu_it_says_so_in_one_sentence():
    ran = run()
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    assert "no NVIDIA GPU" in ran.stderr


@pytest.mark.parametrize(
    "words", [["--stages", "4"], ["--world-sizes", "0"], ["--seq-len", "many"], ["--models"], ["--unknown"]]
)
def test_bad_options_are_usage_errors(words):
    ran = run(*words)
    assert ran.returncode == 2
    assert "usage:" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_options_are_read():
    script = runpy.run_path(str(SCRIPT))
    args = script["arguments"](["--models", "gpt2", "--stages", "2", "3", "--world-sizes", "1", "8"])
    assert (args.models, args.stages, args.world_sizes, args.seq_len) == (["gpt2"], [2, 3], [1, 8], 1024)


def test_its_configurations_are_clean_and_its_models_known(tmp_path):
    script = runpy.run_path(str(SCRIPT))
    for stage in script["STAGES"]:
        report = api.lint([written(tmp_path, stage, script)])
        assert not [finding for finding in report.findings if finding.severity == "error"]
    for model in script["MODELS"]:
        facts, _ = api.load_facts({"model": model, "hardware": "8xA100-80GB"})
        assert 0.1e9 < facts.model.num_parameters < 7.1e9


def written(folder, stage, script):
    path = folder / f"ds_config_{stage}.json"
    path.write_text(json.dumps(script["configuration"](stage)), encoding="utf-8")
    return path
