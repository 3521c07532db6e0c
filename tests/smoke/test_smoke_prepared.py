"""The training environment's interpreter, when it does not do what a Python does."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zeroconf.errors import SmokeTestError
from zeroconf.smoke import launch
from zeroconf.smoke.job import ProgramJob
from zeroconf.smoke.launch import run_smoke_test
from zeroconf.smoke.prepared import follow, no_answer_in_time

# what an interpreter prints, with pauses, as worker/prepare.py does
PRINTS = """
import json, sys, time
for what in json.loads(sys.argv[1]):
    time.sleep(what) if isinstance(what, float) else print(what, flush=True, end="")
"""


@pytest.fixture
def followed(tmp_path):
    """Follows an interpreter that prints; whether it ended in time, and what was shown."""

    def run(*what: str | float, limit: float = 1.0) -> tuple[bool, list[str]]:
        command = [sys.executable, "-IS", "-c", PRINTS, json.dumps(what)]
        said: list[str] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            in_time = follow(process, said.append, limit, tmp_path / "log")
            process.kill()
        return in_time, said

    return run


def test_what_compiles_is_shown_and_the_end_is_seen(followed):
    assert followed("compiling X\ndone comp", "iling X\n") == (True, ["compiling X"])


def test_other_words_go_to_the_log_alone(followed, tmp_path):
    assert followed("\x1b]0;title\x07\nls: ", "one\n", "compiling \x1b[31m" + "z" * 1000 + "\nend") == (
        True,
        ["compiling ?[31m" + "z" * 282 + "..."],
    )
    assert (tmp_path / "log").read_bytes() == b"\x1b]0;title\x07\nls: one\nend\n"


def test_silence_ends_it(followed):
    assert followed("one\n", 60.0) == (False, [])


def test_what_compiles_has_its_time_and_not_what_comes_after(followed):
    begin, end = "compiling X once\n", "done compiling X once\n"
    assert followed(begin, 1.5, end) == (True, ["compiling X once"])
    # of two hosts one waits and one compiles, and the former hangs later
    both = followed(begin, "waiting for another\n", end, 1.5, "done waiting for another\n", 60.0)
    assert both == (False, ["compiling X once", "waiting for another"])


@pytest.mark.parametrize("line", ["y", "done y"])
def test_a_flood_of_lines_is_no_sign_of_an_end(line, tmp_path):
    with subprocess.Popen(["yes", line], stdout=subprocess.PIPE, text=True) as process:
        assert not follow(process, lambda _line: None, 0.3, tmp_path / "log")
        process.kill()


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
        ("#!/bin/sh\nprintf '\\033]0;title\\007no shell'\n", ": ?]0;title?no shell; give"),
        ("#!/bin/sh\nhead -c 300000 /dev/zero | tr '\\0' z; exit 1\n", "zzz...; give"),
    ],
)
def test_what_is_no_python_is_said_in_its_own_words(interpreter, content, said):
    error = interpreter(content)
    assert "python is no working Python interpreter: " in error
    assert "; give --python the training environment's" in error
    assert "traceback" not in error
    assert len(error) < 1500
    assert error.isprintable()
    assert said in error
    assert "\n" not in error
