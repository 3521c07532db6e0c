"""``zeroconf detect`` as a process, on the machine that runs the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from zeroconf.detect.gpus import find_gpus
from zeroconf.detect.machine import this_machine
from zeroconf.resources import data_path

JOB = ("SLURM_", "CUDA_", "NCCL_", "RANK", "WORLD_SIZE", "LOCAL_")
without_gpus = pytest.mark.skipif(bool(find_gpus(this_machine()).devices), reason="this machine has GPUs")


def run(*arguments, cwd, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(JOB)}
    command = [sys.executable, "-m", "zeroconf", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=clean | environment, capture_output=True, text=True, check=False)


def valid(document):
    schema = json.loads(data_path("schemas/detect.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    return document


def test_it_prints_an_inventory_and_what_is_unknown(tmp_path):
    ran = run("detect", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    values = yaml.safe_load(ran.stdout)
    assert values["nodes"] == 1
    assert values["host_memory"].endswith("GiB")
    assert "unknown; only this machine was looked at" in ran.stdout


@without_gpus
def test_a_machine_without_gpus_says_so_and_is_no_failure(tmp_path):
    ran = run("detect", "--json", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    document = valid(json.loads(ran.stdout))
    assert "gpu" not in document
    unknown = {entry["key"]: entry["why"] for entry in document["unknown"]}
    assert unknown["gpus_per_node"].startswith("no GPU was found on this machine (")


@without_gpus
@pytest.mark.parametrize("command", [["generate"], ["estimate"]])
def test_auto_without_gpus_is_one_sentence_with_the_cure(tmp_path, command):
    ran = run(*command, "--model", "7B", "--hardware", "auto", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: no GPU was found on this machine (")
    assert ran.stderr.endswith("name the hardware, like --hardware 8xA100-80GB, or give an inventory file\n")
    assert ran.stderr.count("\n") == 1


@without_gpus
def test_auto_in_a_dry_run(tmp_path):
    (tmp_path / "ds_config.json").write_text('{"train_micro_batch_size_per_gpu": 1}')
    command = ["smoke-test", "ds_config.json", "--model", "tiny", "--dry-run", "--hardware", "auto"]
    ran = run(*command, cwd=tmp_path)
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: no GPU was found on this machine (")


def test_a_file_is_whole_and_not_overwritten(tmp_path):
    first = run("detect", "-o", "cluster.yaml", cwd=tmp_path)
    assert first.returncode == 0
    assert first.stdout.startswith("Wrote cluster.yaml; unknown: nodes")
    text = (tmp_path / "cluster.yaml").read_text()
    assert text == run("detect", cwd=tmp_path).stdout
    again = run("detect", "-o", "cluster.yaml", "--measure-network", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (2, "error: 'cluster.yaml' exists; --force overwrites it\n")
    assert run("detect", "-o", "cluster.yaml", "--json", "--force", cwd=tmp_path).returncode == 0
    valid(json.loads((tmp_path / "cluster.yaml").read_text()))
    assert run("detect", "-o", "-", cwd=tmp_path).stdout == text
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.yaml"]


def test_under_slurm(tmp_path):
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "gpu[01-03]", "SLURM_GPUS_PER_NODE": "h100:4"}
    document = valid(json.loads(run("detect", "--json", cwd=tmp_path, **slurm).stdout))
    assert document["nodes"] == 3
    assert document["sources"]["nodes"].startswith("SLURM_JOB_NODELIST; ")


@without_gpus
def test_a_job_of_another_machine_can_be_completed_by_hand(tmp_path):
    (tmp_path / "hosts").write_text("a slots=8\nb slots=8\n")
    ran = run("detect", "--hostfile", "hosts", cwd=tmp_path)
    assert "nodes: 2  # hosts" in ran.stdout
    assert "gpus_per_node: 8  # hosts; no GPU was found on this machine" in ran.stdout
    (tmp_path / "cluster.yaml").write_text(ran.stdout + "gpu: A100-80GB\nnetwork: ib-hdr\n")
    hardware = ["--hardware", "cluster.yaml", "--host-memory", "1TiB"]
    planned = run("generate", "--model", "7B", *hardware, "--dry-run", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert "A100-SXM4-80GB" in planned.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hostfile", "missing"], "missing: there is no such file"),
        (["--num-ranks", "2"], "are for --measure-network"),
        (["--measure-network", "--python", "/no/python"], "there is no interpreter /no/python"),
        (["-o", "no/such/folder.yaml"], "create it first"),
        (["-o", ""], "the name of an output is empty"),
        (["more"], "unexpected extra argument"),
    ],
)
def test_mistakes(tmp_path, arguments, message):
    ran = run("detect", *arguments, cwd=tmp_path)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


PYNVML = """
from machines import dgx
_nvml = dgx()
globals().update({name: getattr(_nvml, name) for name in dir(_nvml) if name.startswith(("nvml", "NVML"))})
"""


def test_auto_plans_as_the_inventory_does(tmp_path):
    (tmp_path / "pynvml.py").write_text(PYNVML)
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parent), *filter(None, sys.path)])
    job = {"PYTHONPATH": paths, "SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2"}
    written = run("detect", "-o", "cluster.yaml", cwd=tmp_path, **job)
    assert written.returncode == 0, written.stderr
    facts = ["--model", "7B", "--network", "ib-hdr", "--host-memory", "1TiB", "--json"]
    auto, read = (
        json.loads(run("generate", *facts, "--hardware", hardware, cwd=tmp_path, **job).stdout)
        for hardware in ("auto", "cluster.yaml")
    )
    assert auto["plan"] == read["plan"] is not None
    assert auto["facts"]["cluster"]["num_gpus"] == 16
    assert auto["facts"]["cluster"]["name"] == "2x8xA100-SXM4-80GB"
    assert auto["facts"]["cluster"]["intra_node"]["name"] == "nvlink3"
    assert any(note.startswith("gpu: NVML (driver 550.54.15)") for note in auto["facts"]["cluster"]["assumptions"])
