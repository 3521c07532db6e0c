"""Runs on machines that lack something: room on a disk, a compiler, a precision; and a loss that is no number."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from zeroconf.smoke.command import cache_directory

sys.path.append(str(Path(__file__).parent))

from smoke_runs import assert_clean, processes_of

pytestmark = [pytest.mark.launch, pytest.mark.skipif(sys.platform != "linux", reason="/proc, mount namespaces")]

BF16: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 1,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 1000},
}
FP16 = {"train_micro_batch_size_per_gpu": 1, "fp16": {"enabled": True}}
OFFLOAD = BF16 | {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
# weights of this size overflow in attention's products; every power is a finite bf16
DIVERGING = BF16 | {"optimizer": {"type": "AdamW", "params": {"lr": 1e18, "torch_adam": True}}}
FULL = "make room"


class Ended(NamedTuple):
    """A whole command's end: exit code, ``--json``'s object or None, and what it said."""

    code: int
    answer: dict[str, Any] | None
    said: str


@pytest.fixture
def work(tmp_path):
    """A folder for temporary files, and one for the cache with the compiled operators of other tests."""
    for name in ("tmp", "cache"):
        (tmp_path / name).mkdir()
    kept = cache_directory() / "build"
    kept.mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache" / "build").symlink_to(kept)
    return tmp_path


def smoke_test(work: Path, config: dict[str, Any], *options: str, mount: tuple[str, int] | None = None, **env: str):
    """The command on two ranks; ``mount`` is a subfolder and how many KiB are free there, on a disk of its own."""
    (work / "ds.json").write_text(json.dumps(config), encoding="utf-8")
    command = [sys.executable, "-m", "zeroconf", "smoke-test", str(work / "ds.json"), "--model", "tiny", "--json"]
    command += ["--num-gpus", "2", "--device", "cpu", "--timeout", "200", *options]
    if mount:
        name, kibibytes = mount
        # a page is taken, so that a disk can be full
        disk = f"mount -t tmpfs -o size={kibibytes + 4}k none {work / name} && echo > {work / name}/taken"
        disk += ' && exec "$0" "$@"'
        command = ["unshare", "--mount", "--map-root-user", "sh", "-c", disk, *command]
    environment = os.environ | {"TMPDIR": str(work / "tmp"), "ZEROCONF_CACHE": str(work / "cache")} | env
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in ran.stderr
    assert processes_of(work) == []
    assert_clean(work / "tmp")
    return Ended(ran.returncode, json.loads(ran.stdout) if ran.stdout else None, ran.stderr)


@pytest.fixture
def can_mount(tmp_path):
    shell = ["sh", "-c", f"mount -t tmpfs -o size=4k none {tmp_path}"]
    if (
        not shutil.which("unshare")
        or subprocess.run(
            ["unshare", "--mount", "--map-root-user", *shell], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("a disk of its own needs root, or user namespaces")


def test_a_precision_that_the_device_has_not_is_rejected(work):
    code, answer, _ = smoke_test(work, FP16, "--num-gpus", "1")
    assert (code, answer["outcome"]) == (1, "rejected")
    assert "Type fp16 is not supported" in answer["explanation"]
    assert answer["cure"].startswith("use bf16")


def test_a_loss_that_is_no_number_is_said_and_is_null_in_json(work):
    code, answer, _ = smoke_test(work, DIVERGING, "--num-gpus", "1")
    assert (code, answer["outcome"]) == (1, "not-finite")
    assert answer["explanation"] == "it fits in memory, but the loss is not finite from step 2 on"
    assert answer["cure"] == "lower the learning rate"
    (rank,) = answer["ranks"]
    assert rank["losses"][0] > 0
    assert rank["losses"][1:] == [None, None]


def test_offload_without_a_compiler_says_what_to_install(work):
    (work / "cache" / "build").unlink()
    tools = work / "tools"
    tools.mkdir()
    (tools / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    code, answer, said = smoke_test(work, OFFLOAD, PATH=str(tools))
    assert (code, answer["outcome"]) == (1, "crash")
    assert answer["explanation"].startswith("no rank was started: DeepSpeed's CPUAdam did not compile: RuntimeError")
    assert "not found" in answer["explanation"]
    for name in ("build-essential", "ninja", "DS_BUILD_CPU_ADAM=1", "torch_adam"):
        assert name in answer["cure"]
    assert "starting" not in said  # no rank was
    assert "c++" in Path(answer["log_path"]).read_text(encoding="utf-8")
    assert not list((work / "cache").glob("build/*/extensions/*/lock"))


@pytest.mark.usefixtures("can_mount")
class TestFullDisk:
    """Room in KiB, in pages of 4: what comes first fits, what comes next does not."""

    def test_before_the_ranks(self, work):
        code, answer, said = smoke_test(work, BF16 | {"comment": "x" * 5000}, mount=("tmp", 4))
        assert (code, answer) == (4, None)
        assert FULL in said
        assert said.count("\n") == 1

    def test_while_they_are_prepared(self, work):
        code, answer, said = smoke_test(work, BF16, mount=("tmp", 4))
        assert (code, answer) == (4, None)
        assert "No space left on device; a disk is full; " in said
        assert FULL in said
        assert said.count("error: ") == 1

    def test_of_the_ranks_records(self, work):
        code, answer, _ = smoke_test(work, BF16, mount=("tmp", 12))
        assert (code, answer["outcome"]) == (1, "crash")
        assert "No space left on device; a disk is full" in answer["explanation"]
        assert FULL in answer["cure"]

    def test_of_the_operators(self, work):
        (work / "cache" / "build").unlink()
        code, answer, _ = smoke_test(work, OFFLOAD, mount=("cache", 0))
        assert (code, answer["outcome"]) == (1, "crash")
        assert (
            "DeepSpeed's CPUAdam did not compile: OSError: [Errno 28] No space left on device" in answer["explanation"]
        )
        assert FULL in answer["cure"]

    def test_of_the_log_hides_no_refusal(self, work):
        (work / "cache" / "build").unlink()
        refused = BF16 | {"zero_optimization": {"stage": 2, "overlap_com": True}}
        code, answer, _ = smoke_test(work, refused, "--num-gpus", "1", mount=("cache", 0))
        assert (code, answer["outcome"]) == (1, "rejected")
        assert "overlap_com" in answer["explanation"]
        assert any("the measurement was not kept" in line for line in answer["substitutions"])
