"""The training environment's interpreter, when it does not do what a Python does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zeroconf.errors import SmokeTestError
from zeroconf.smoke import folders, launch
from zeroconf.smoke.job import ProgramJob
from zeroconf.smoke.launch import run_smoke_test
from zeroconf.smoke.prepared import follow, no_answer_in_time

# what an interpreter prints, with pauses, as worker/prepare.py does
PRINTS = """
import json, sys, time
for what in json.loads(sys.argv[1]):
    time.sleep(what) if isinstance(what, float) else print(what, flush=True, end="")
"""


def followed(*what: str | float, limit: float = 1.0) -> tuple[bool, list[str]]:
    command = [sys.executable, "-IS", "-c", PRINTS, json.dumps(what)]
    said: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        in_time = follow(process, said.append, limit, Path(os.devnull))
        process.kill()
    return in_time, said


def test_lines_are_shown_and_the_end_is_seen():
    assert followed("one\ntw", "o\n") == (True, ["one", "two"])


def test_silence_ends_it():
    assert followed("one\n", 60.0) == (False, ["one"])


def test_what_compiles_has_its_time_and_not_what_comes_after():
    begin, end = "compiling X once\n", "done compiling X once\n"
    assert followed(begin, 1.5, end) == (True, ["compiling X once"])
    # of two hosts one waits and one compiles, and the former hangs later
    both = followed(begin, "waiting for another\n", end, 1.5, "done waiting for another\n", 60.0)
    assert both == (False, ["compiling X once", "waiting for another"])


@pytest.mark.parametrize("line", ["y", "done y"])
def test_a_flood_of_lines_is_no_sign_of_an_end(line):
    with subprocess.Popen(["yes", line], stdout=subprocess.PIPE, text=True) as process:
        assert not follow(process, lambda _line: None, 0.3, Path(os.devnull))
        process.kill()


def test_a_flood_of_errors_does_not_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "LONGEST_LOG_BYTES", 30_000_000)
    code = 'import time\nfor _ in range(35): print("e" * 1_000_000, flush=True)\ntime.sleep(60)'
    with (tmp_path / "log").open("a") as log:
        process = subprocess.Popen([sys.executable, "-IS", "-c", code], stdout=log, stderr=subprocess.PIPE, text=True)
        process.stdout, process.stderr = process.stderr, None
        assert not follow(process, lambda _line: None, 1.5, tmp_path / "log")
        process.kill()
        process.communicate()
    assert (tmp_path / "log").stat().st_size < 31_000_000


def test_who_did_not_answer_is_named(tmp_path):
    (tmp_path / "prepared-0.json").touch()
    error = str(no_answer_in_time(tmp_path, "python", ["a", "b"], Path("x.log"), 120))
    assert error.startswith("python on b did not say within 120 s ")


@pytest.fixture
def interpreter(tmp_path, monkeypatch):
    """Runs a smoke test under a --python with this content; the error."""
    monkeypatch.setenv("ZEROCONF_CACHE", str(tmp_path / "cache"))

    def run(content: str) -> str:
        python, script = tmp_path / "python", tmp_path / "train.py"
        python.write_text(content, encoding="utf-8")
        python.chmod(0o755)
        script.touch()
        job = ProgramJob(script=script, arguments=(), config=None, steps=1, world_size=1)
        with pytest.raises(SmokeTestError) as raised:
            run_smoke_test(job, python=str(python), timeout_seconds=0.5)
        assert raised.value.exit_code == 4
        return str(raised.value)

    return run


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_an_interpreter_that_hangs_is_ended_and_said(interpreter, tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "PREPARE_SECONDS", 1.0)
    began = time.monotonic()
    error = interpreter(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    assert time.monotonic() - began < 20
    assert error.startswith(f"{tmp_path}/python did not say within 1 s what is installed; ")
    assert "raise --timeout (" in error
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("\0\1garbage\n", "Exec format error"),
        ("#!/bin/sh\necho 'python2: too old for this' >&2\nexit 3\n", "python2: too old for this"),
        ("#!/bin/sh\necho 'SyntaxError: future feature annotations is not defined' >&2; exit 1\n", "SyntaxError: fut"),
        ("#!/bin/sh\nexit 0\n", "it ended without a word"),
    ],
)
def test_what_is_no_python_is_said_in_its_own_words(interpreter, content, said):
    error = interpreter(content)
    assert "could not be prepared: " in error
    assert said in error
    assert "\n" not in error
