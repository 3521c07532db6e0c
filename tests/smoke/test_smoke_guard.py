from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zeroconf.guarded import guard_command
from zeroconf.smoke.command import WORKER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="adopts orphans by Linux's subreaper")

# a launcher: starts a rank in a session of its own, says its pid, then waits, ends, or fails
LAUNCHER = """
import subprocess, sys, time
rank = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(60)"], start_new_session=True)
print(rank.pid, flush=True)
if sys.argv[1] == "wait": time.sleep(60)
sys.exit(int(sys.argv[1]))
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ends(pid: int, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


def guarded(scratch: Path, what: str) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-IS", "-c", LAUNCHER, what]
    guard = subprocess.Popen(guard_command(sys.executable, scratch, command), stdout=subprocess.PIPE, text=True)
    assert guard.stdout is not None
    with guard.stdout:
        return guard, int(guard.stdout.readline())


@pytest.mark.parametrize("code", [0, 3])
def test_a_rank_that_outlives_its_launcher_is_ended(tmp_path, code):
    guard, rank = guarded(tmp_path, str(code))
    assert guard.wait(10) == code
    assert not alive(rank)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_whole_tree(tmp_path, number):
    guard, rank = guarded(tmp_path, "wait")
    guard.send_signal(number)
    assert guard.wait(10) == 128 + signal.SIGTERM
    assert not alive(rank)


# a launcher that does something on SIGTERM
HEEDS = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: pathlib.Path(sys.argv[1]).touch())
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("launcher", "is_asked"), [("torch.distributed.run", True), ("deepspeed.launcher.runner", False)]
)
def test_deepspeeds_runner_is_not_asked_to_end(tmp_path, launcher, is_asked):
    asked = tmp_path / "asked"
    command = [sys.executable, "-IS", "-c", HEEDS, str(asked), launcher]
    with subprocess.Popen(guard_command(sys.executable, tmp_path, command), stdout=subprocess.PIPE, text=True) as guard:
        assert guard.stdout is not None
        assert guard.stdout.readline() == "ready\n"
        guard.send_signal(signal.SIGTERM)
        guard.wait(10)
    assert asked.exists() == is_asked


def test_a_killed_parent_takes_all_with_it(tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    code = (
        "import subprocess, sys, os, time\n"
        f"guard = [sys.executable, '-IS', {str(WORKER / 'guard.py')!r}, str(os.getpid()), {str(scratch)!r}, '3']\n"
        f"subprocess.Popen([*guard, sys.executable, '-IS', '-c', {LAUNCHER!r}, 'wait'])\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-IS", "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        rank = int(parent.stdout.readline())
        assert alive(rank)
        os.kill(parent.pid, signal.SIGKILL)
    assert ends(rank)
    deadline = time.monotonic() + 5
    while scratch.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not scratch.exists()
