"""``generate --verify``: the plan is tried before it is written, on fake tensors or in real steps."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from builders import TINY_LLAMA

from zeroconf.errors import InputError
from zeroconf.inputs.cluster import read_cluster
from zeroconf.smoke import planned
from zeroconf.smoke.measured import SmokeResult

HARDWARE = ("--hardware", "2xA100-80GB", "--global-batch-size", "4")


@pytest.fixture
def generate(run):
    Path("config.json").write_text(json.dumps(TINY_LLAMA))

    def call(*options):
        return run("generate", "--model", "config.json", *HARDWARE, "--verify", *options)

    return call


def test_what_fits_is_written_with_what_was_seen(generate):
    for library in ("deepspeed", "transformers"):
        pytest.importorskip(library)
    code, out, err = generate("--zero-stage", "3")
    assert code == 0, err
    written = json.loads(Path("ds_config.json").read_text())
    assert written["_zeroconf"]["verified"].startswith("dry run of DeepSpeed 0.")
    assert "of the 79.2 GiB of A100-SXM4-80GB" in written["_zeroconf"]["verified"]
    assert f"Verified {written['_zeroconf']['verified']}" in out
    assert "initialising DeepSpeed" in err


CPU = """\
gpus_per_node: 2
gpu: {name: cpu, memory: 8GiB, bf16_tflops: 0.1, memory_bandwidth: 10GB/s}
intra_node: 2GB/s
"""


@pytest.mark.launch
def test_on_its_own_hardware_a_plan_really_runs_before_it_is_written(run):
    Path("config.json").write_text(json.dumps(TINY_LLAMA))
    Path("cpu.yaml").write_text(CPU)
    hardware = ("--hardware", "cpu.yaml", "--global-batch-size", "8", "--zero-stage", "2")
    code, out, err = run("generate", "--model", "config.json", *hardware, "--verify=smoke")
    assert code == 0, err
    said = json.loads(Path("ds_config.json").read_text())["_zeroconf"]["verified"]
    number = r"\d[\d.]*"
    assert re.fullmatch(
        rf"3 optimizer steps of DeepSpeed {number} as 2 ranks on cpu: peak {number} MiB \(estimate [+-]{number}%\), "
        rf"{number} \w+ a step, loss {number} to {number}",
        said,
    )
    assert f"Verified {said}" in out
    assert "step 3 of 3 done" in err


@pytest.mark.parametrize(
    ("hardware", "here", "sentence"),
    [
        (
            "8xH100-80GB",
            None,
            "runs on this machine, which shows no GPU, and the plan is for 8xH100-80GB; run it there",
        ),
        (
            "2x8xH100-80GB",
            None,
            "starts the ranks on this machine, and 2x8xH100-80GB has 2 nodes; take --verify=dry-run",
        ),
        (
            "8xH100-80GB",
            "8xA100-80GB",
            "runs on this machine, which has 8xA100-SXM4-80GB, and the plan is for 8xH100-80GB",
        ),
        (
            "8xH100-80GB",
            "2xH100-80GB",
            "runs on this machine, which has 2xH100-SXM5-80GB, and the plan is for 8xH100-80GB",
        ),
    ],
)
def test_other_hardware_than_the_plans_is_refused(run, monkeypatch, hardware, here, sentence):
    def found(_name):
        if here is None:
            msg = "no GPU"
            raise InputError(msg)
        return read_cluster(here)

    monkeypatch.setattr(planned, "read_hardware", found)
    Path("config.json").write_text(json.dumps(TINY_LLAMA))
    code, _, err = run("generate", "--model", "config.json", "--hardware", hardware, "--verify=smoke")
    assert code == 2
    assert sentence in err
    assert not Path("ds_config.json").exists()


def test_what_does_not_fit_is_not_written(generate, monkeypatch):
    failed = SmokeResult(
        mode="dry-run",
        outcome="does-not-fit",
        ranks=(),
        environment={},
        log_path="",
        explanation="the peak is too high",
    )
    monkeypatch.setattr(planned, "try_plan", lambda *_args, **_options: failed)
    code, out, err = generate()
    assert (code, out) == (4, "")
    assert err == "error: the dry run of the chosen plan ends as does-not-fit: the peak is too high\n"
    assert not Path("ds_config.json").exists()


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--cross-entropy", "fused"), "--cross-entropy fused"),
        (("--frozen-params", "1B"), "--frozen-params"),
        (("--for", "accelerate", "--optimizer", "lion"), "--optimizer lion of the script"),
        (("--lora-rank", "4", "--quantize", "nf4"), "--quantize nf4"),
        (("--trainable-params", "9"), "--trainable-params"),
    ],
)
def test_what_a_dry_run_does_not_show_is_refused(generate, options, shown):
    code, _, err = generate(*options)
    assert code == 2
    assert err == f"error: a dry run does not show {shown}; leave out --verify\n"


def test_an_existing_file_is_refused_before_the_dry_run(generate):
    Path("ds_config.json").write_text("{}")
    code, _, err = generate()
    assert code == 2
    assert "--force" in err
    assert "initialising" not in err
