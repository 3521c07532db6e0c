"""Runs that fail, really: refused configurations, memory, crashes, hangs, and whoever gets killed."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from zeroconf.errors import SmokeTestError
from zeroconf.smoke.command import WORKER
from zeroconf.smoke.folders import LONGEST_LOG_BYTES
from zeroconf.smoke.job import ProgramJob, SmokeJob
from zeroconf.smoke.launch import run_smoke_test

sys.path += [str(WORKER), str(Path(__file__).parent)]

import caches
from smoke_runs import TINY, assert_clean, processes_of

pytestmark = [pytest.mark.launch, pytest.mark.skipif(sys.platform != "linux", reason="/proc, subreaper")]

SECONDS_TO_END = 60  # far under the runs' timeout of 300: an end by timeout would show


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Everything temporary of a run lies here, so that what is left behind can be seen."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def run(config: dict[str, Any], **options: Any) -> Any:
    options = {"timeout_seconds": 300, "launcher": "torchrun"} | options
    return run_smoke_test(job(config), python=sys.executable, device="cpu", **options)


def job(config: dict[str, Any], **changes: Any) -> SmokeJob:
    return SmokeJob(**{"ds_config": config, "architecture": TINY, "sequence_length": 32, "world_size": 2} | changes)


def config(**zero: Any) -> dict[str, Any]:
    return {
        "train_micro_batch_size_per_gpu": 1,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 1000} | zero,
    }


def test_a_refused_key_is_named(folder):
    began = time.monotonic()
    result = run(config(overlap_com=True))
    assert time.monotonic() - began < SECONDS_TO_END
    assert result.outcome == "rejected"
    assert "overlap_com" in result.explanation
    assert "lint" in result.cure
    assert_clean(folder)


def test_a_bucket_beyond_all_memory_is_host_oom(folder):
    # 2 PB: torch's allocator refuses at once, nothing is touched
    result = run(config(reduce_bucket_size=10**15))
    assert result.outcome == "host-oom"
    assert "can't allocate memory" in result.explanation
    # the rank that fails first ends the other, which may not have measured anything yet
    assert max(rank.phases["forward"] for rank in result.ranks) > 0
    assert_clean(folder)


def test_a_sequence_beyond_the_model_is_a_crash_that_says_so(folder, tmp_path):
    path = tmp_path / "model" / "config.json"
    path.parent.mkdir()
    values = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 512, "n_positions": 16}
    path.write_text(json.dumps(values))
    result = run_smoke_test(job(config(), architecture=path, world_size=1), python=sys.executable, device="cpu")
    assert result.outcome == "crash"
    assert "sequence length 32 is beyond the model's 16 positions" in result.explanation
    path.unlink()
    path.parent.rmdir()
    assert_clean(folder)


@pytest.mark.parametrize(
    ("launcher", "injected", "expected"),
    [
        ("torchrun", "oom@1:backward", ("oom", "rank 1 failed in backward of step 1")),
        ("deepspeed", "crash@1:build", ("crash", "rank 1 failed in build: InjectedCrashError")),
        ("torchrun", "killed@1:build", ("host-oom", "killed")),
    ],
)
def test_one_failing_rank_ends_all_at_once(folder, monkeypatch, launcher, injected, expected):
    outcome, explanation = expected
    monkeypatch.setenv("ZEROCONF_INJECT", injected)
    began = time.monotonic()
    result = run(config(), launcher=launcher)
    assert time.monotonic() - began < SECONDS_TO_END
    assert result.outcome == outcome
    assert explanation in result.explanation
    assert result.cure
    assert "Traceback" in Path(result.log_path).read_text(encoding="utf-8") or outcome == "host-oom"
    assert_clean(folder)


def test_a_hang_ends_at_the_timeout(folder, monkeypatch):
    monkeypatch.setenv("ZEROCONF_INJECT", "hang@1:start")
    result = run(config(), timeout_seconds=25)
    assert result.outcome == "hang"
    seen = "rank 0 was in torch.distributed's rendezvous, rank 1 was in start"
    assert result.explanation == f"no end after 25 s: {seen}"
    assert result.cure.startswith("rank 1 is late or stuck before the rendezvous")
    assert_clean(folder)


FLOOD = "import sys\nwhile True: sys.stdout.write(('x' * 1000 + chr(10)) * 100)\n"


def test_a_program_that_writes_without_end_takes_neither_memory_nor_disk(folder, tmp_path):
    script = tmp_path / "flood.py"
    script.write_text(FLOOD, encoding="utf-8")
    job = ProgramJob(script=script, arguments=(), config=None, steps=1, world_size=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    result = run_smoke_test(job, python=sys.executable, device="cpu", timeout_seconds=6)
    assert time.monotonic() - began < SECONDS_TO_END
    assert result.outcome == "hang"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
    assert Path(result.log_path).stat().st_size <= LONGEST_LOG_BYTES
    script.unlink()
    assert_clean(folder)


SCRIPT = """
import sys
from zeroconf.smoke.job import SmokeJob
from zeroconf.smoke.launch import run_smoke_test
run_smoke_test(SmokeJob(ds_config={config!r}, architecture={architecture!r}, sequence_length=32, world_size=2),
               python=sys.executable, device="cpu", launcher="deepspeed",
               on_progress=lambda line: print(line, flush=True))
"""


@pytest.mark.parametrize(
    ("signal_number", "code"),
    [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_nothing_outlives_zeroconf(folder, signal_number, code):
    script = SCRIPT.format(config=config(), architecture=TINY)
    environment = os.environ | {"TMPDIR": str(folder)}
    # run outside of the folder, and by a command line that does not name it
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as zeroconf:
        assert zeroconf.stdout is not None
        for line in zeroconf.stdout:
            if line.startswith("reading the"):
                break
        assert len([command for command in processes_of(folder) if "rank.py" in command]) >= 3
        zeroconf.send_signal(signal_number)
        # Python ends by SIGINT itself when KeyboardInterrupt is not caught
        assert zeroconf.wait(20) in {code, -signal_number}
    assert_clean(folder)


def test_a_killed_launcher_leaves_no_rank(folder):
    def kill_launcher(line: str) -> None:
        if line.startswith("reading the"):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    command = path.read_bytes().split(b"\0")
                except OSError:
                    continue
                if (
                    b"torch.distributed.run" in command
                    and b"-IS" not in command
                    and str(folder).encode() in command[-2]
                ):
                    os.kill(int(path.parent.name), signal.SIGKILL)

    result = run(config(), on_progress=kill_launcher)
    assert result.outcome in {"crash", "host-oom"}
    assert_clean(folder)


def compilers_in(folder: Path) -> list[str]:
    """Working directories of living processes inside the folder: ninja and the compiler run there."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        try:
            where = str(path.readlink())
        except OSError:
            continue
        if where.startswith(str(folder)):
            found.append(where)
    return found


def test_a_killed_build_leaves_no_compiler_and_its_lock_is_removed(folder, tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    offload = config(offload_optimizer={"device": "cpu"})
    environment = os.environ | {"TMPDIR": str(folder), "ZEROCONF_CACHE": str(cache)}
    script = SCRIPT.format(config=offload, architecture=TINY)
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as zeroconf:
        deadline = time.monotonic() + 60
        while not compilers_in(cache) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert compilers_in(cache)
        zeroconf.kill()
    deadline = time.monotonic() + 10
    while compilers_in(cache) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert compilers_in(cache) == []
    (lock,) = cache.glob("build/*/extensions/*/lock")
    assert caches.remove_stale_locks(lock.parents[1]) == [lock]
    assert_clean(folder)


def test_an_interpreter_that_is_not_there():
    with pytest.raises(SmokeTestError, match="no interpreter /nowhere/python"):
        run_smoke_test(job(config(), world_size=1), python="/nowhere/python")


def test_an_environment_without_deepspeed(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    with pytest.raises(
        SmokeTestError,
        match=r"has no torch, deepspeed, transformers, accelerate; give .* --python, or install: .* pip install torch",
    ):
        run_smoke_test(job(config(), world_size=1), python=python)
