"""The command line under odd streams, signals, names and folders: the right exit code, whole files, one sentence."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zeroconf import cli
from zeroconf.inputs.versions import read_versions
from zeroconf.process import unwinding_signals

ENTRY = [sys.executable, "-m", "zeroconf"]
LLAMA = ("--model", "llama-3.1-8b", "--hardware", "8xA100-80GB")
GENERATE = ("generate", *LLAMA)
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")


def shell(redirections, *arguments, cwd, **options):
    """One command of a shell, so that descriptors can be closed and redirected: (exit code, stdout, stderr)."""
    script = f'exec "$@" {redirections}'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *ENTRY, *arguments],
        cwd=cwd, capture_output=True, text=True, check=False, **options,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path):
    """Runs the command line in an empty folder of this process: the one sentence with which it refuses."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["zeroconf", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        assert (stop.value.code, captured.out) == (2, "")
        assert re.fullmatch(r"error: .*\n", captured.err), captured.err
        return captured.err.removeprefix("error: ").strip()

    return call


def names(folder):
    return {entry.name for entry in folder.iterdir()}


# --- standard streams ----------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing_else(tmp_path, closed):
    code, _, err = shell(closed, *GENERATE, cwd=tmp_path)
    assert (code, err) == (0, "")
    assert json.loads((tmp_path / "ds_config.json").read_text())["zero_optimization"]["stage"] == 2
    assert shell(closed, *GENERATE, cwd=tmp_path)[0] == 2
    assert shell(closed, "estimate", *LLAMA, cwd=tmp_path)[0] == 0
    assert shell(closed, "--help", cwd=tmp_path)[0] == 0


@needs_full
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((*GENERATE, "--zero-stage", "9"), 2),
        (("generate", "--model", "nobody", "--hardware", "8xA100-80GB"), 2),
        (("generate", "--model", "70B", "--hardware", "1xT4"), 3),
    ],
)
def test_a_full_stderr_keeps_the_exit_code(tmp_path, arguments, code):
    assert shell("2>/dev/full", *arguments, cwd=tmp_path)[0] == code


@needs_full
def test_a_full_stderr_does_not_keep_the_file_from_stdout(tmp_path):
    code, out, _ = shell("2>/dev/full", *GENERATE, "-o", "-", cwd=tmp_path)
    assert code == 0
    assert json.loads(out)["zero_optimization"]["stage"] == 2


@needs_full
@pytest.mark.parametrize("arguments", [(*GENERATE, "--dry-run"), ("--help",)])
def test_a_full_stdout_is_one_line(tmp_path, arguments):
    code, _, err = shell(">/dev/full", *arguments, cwd=tmp_path)
    assert code == 2
    assert re.fullmatch(r"error: No space left on device.*\n", err)


# --- signals -------------------------------------------------------------------------------------

# the first synced file waits: the moment in which temporary files lie beside the outputs
SLOW = """
import os, time
sync = os.fsync
def slow_sync(fd):
    sync(fd)
    os.write(2, b"writing\\n")
    time.sleep(30)
os.fsync = slow_sync
from zeroconf.entry import main
main()
"""


def stopped_while_writing(folder, *numbers, prefix=()):
    command = [*prefix, sys.executable, "-c", SLOW, *GENERATE, "--accelerate", "a.yaml"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "writing\n"
        for number in numbers:
            child.send_signal(number)
        code = child.wait(20)
        return code, child.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_command_leaves_nothing(tmp_path, number):
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("this test run ignores the signal, as under nohup")
    assert stopped_while_writing(tmp_path, number) == (128 + number, "")
    assert names(tmp_path) == set()


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_while_a_class_is_made_is_that_signal(number, raised):
    """Python 3.11 makes a RuntimeError of it."""

    class Slow:
        def __set_name__(self, owner, name):
            os.kill(os.getpid(), number)

    def make():
        with unwinding_signals():
            type("Made", (), {"attribute": Slow()})

    with pytest.raises(raised):
        make()


def test_a_second_signal_does_not_cut_the_cleaning_up_short(tmp_path):
    code, err = stopped_while_writing(tmp_path, signal.SIGTERM, signal.SIGHUP, signal.SIGTERM)
    assert code in {128 + signal.SIGTERM, 128 + signal.SIGHUP}
    assert (err, names(tmp_path)) == ("", set())


def test_nohup_still_holds(tmp_path):
    code, _ = stopped_while_writing(tmp_path, signal.SIGHUP, signal.SIGTERM, prefix=["nohup"])
    assert code == 128 + signal.SIGTERM
    assert names(tmp_path) == set()


def test_ctrl_c_at_any_time_prints_no_traceback(tmp_path):
    delays = random.Random(0)  # noqa: S311  (delays, not secrets)
    for _ in range(25):
        with subprocess.Popen(
            [*ENTRY, *GENERATE, "--dry-run"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as child:
            time.sleep(delays.uniform(0, 0.3))
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=20)
        # the interpreter's own start-up, until entry.main runs, is not ours to protect
        ours = "entry.py" in err and "in main" in err
        assert not ours, err
        assert "cli.py" not in err, err
        if "Traceback" not in err:
            assert child.returncode in {0, 130, -signal.SIGINT}, err
    assert names(tmp_path) == set()


def test_ctrl_c_while_the_command_line_is_imported(tmp_path):
    """Deterministic, unlike the above: the import of click waits."""
    (tmp_path / "click.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(30)\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [*ENTRY, "--help"], env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == "importing\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == -signal.SIGINT
        assert child.stderr is not None
        assert child.stderr.read() == ""


# --- names of outputs ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "outputs",
    [
        ("-o", "-", "--accelerate", "-"),
        ("-o", "-", "--launch", "/dev/stdout"),
        ("--accelerate", "/proc/self/fd/1", "--launch", "-"),
    ],
)
def test_standard_output_takes_one_document(refused, tmp_path, outputs):
    assert "two outputs want standard output" in refused(*GENERATE, *outputs)
    assert names(tmp_path) == set()


def test_a_scheduler_needs_a_launch_file(refused, tmp_path):
    assert "add --launch FILE" in refused(*GENERATE, "--scheduler", "kubernetes")
    assert names(tmp_path) == set()


@pytest.mark.parametrize("output", [("-o", "-"), ("--accelerate", "-"), ("--launch", "/dev/fd/1")])
def test_json_shares_standard_output_with_nothing(refused, output):
    assert "both want standard output" in refused(*GENERATE, *output, "--json")


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ("new/", "'new/' is a folder; name a file in it"),
        ("new/.", "'new/.' is a folder; name a file in it"),
        ("", "the name of an output is empty"),
        ("x" * 300, "choose a shorter name"),
        ("pipe", "'pipe' is not a regular file; write to another path, or to - for standard output"),
        ("/dev/null", "is not a regular file"),
        ("/dev/stderr", "is not a regular file"),
        ("/dev/fd/0", "is not a regular file"),
    ],
)
def test_what_is_no_file_is_named(refused, tmp_path, output, sentence):
    os.mkfifo(tmp_path / "pipe")
    for force in ((), ("--force",)):
        assert sentence in refused(*GENERATE, "-o", output, *force)
    assert names(tmp_path) == {"pipe"}


@pytest.mark.parametrize("output", ["/dev/stdout", "/dev/fd/1", "//dev/stdout", "/proc/self/fd/1", "link"])
def test_dev_stdout_is_standard_output(tmp_path, output):
    (tmp_path / "link").symlink_to("/dev/stdout")
    redirected = tmp_path / "redirected"
    redirected.touch()
    inode = redirected.stat().st_ino
    code, _, err = shell(">redirected", *GENERATE, "-o", output, "--force", cwd=tmp_path)
    assert code == 0
    assert "chosen" in err
    assert redirected.stat().st_ino == inode
    assert json.loads(redirected.read_text())["zero_optimization"]["stage"] == 2


def test_names_that_the_locale_cannot_write(refused, tmp_path):
    ascii_locale = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0"}
    code, _, err = shell("", *GENERATE, "-o", "é/x.json".encode(), cwd=tmp_path, env=ascii_locale)
    assert code == 2
    assert re.fullmatch("error: the name '.*' is not valid in this locale .*\n", err)
    assert "not valid in this locale" in refused(*GENERATE, "--launch", os.fsdecode(b"\xff.sh"))
    assert names(tmp_path) == set()


GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 512, "n_positions": 16}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "koi8-r", "utf-8"])
def test_every_name_can_be_written_to_every_stream(tmp_path, encoding):
    name = "日é😀"
    (tmp_path / name).mkdir()
    (tmp_path / name / "config.json").write_text(json.dumps(GPT2), encoding="utf-8")
    environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "1"}
    estimate = [sys.executable, "-m", "zeroconf", "estimate", "--hardware", "8xA100-80GB", "--model", name]
    written = encoding.replace("ascii", "utf-8")  # as click writes what claims to be ASCII
    for form in ((), ("--json",)):
        ran = subprocess.run(
            [*estimate, *form], cwd=tmp_path, env=environment, capture_output=True, check=False, encoding=written
        )
        assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["facts"]["model"]["name"] == name


def test_a_deleted_folder_is_named(refused, tmp_path, monkeypatch):
    for arguments in (GENERATE, ("estimate", *LLAMA), ("smoke-test", "x.json", "--model", "tiny")):
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        assert refused(*arguments) == "the current folder no longer exists; change into one that does"


# --- configurations ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("pipe", "pipe: is not a regular file"),
        ("/dev/null", "/dev/null: is not a regular file"),
        (".", ".: is a folder"),
        ("", "the name of the configuration is empty"),
        ("missing.json", "missing.json: there is no such file"),
        ("missing/x.json", "there is no such file"),
        ("x" * 300, "File name too long"),
    ],
)
def test_what_is_no_configuration_file_is_named(refused, tmp_path, config, sentence):
    os.mkfifo(tmp_path / "pipe")
    assert sentence in refused("estimate", config, *LLAMA)
    assert sentence in refused("smoke-test", config, "--model", "tiny")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a: 2024-13-45\n", "month must be in 1..12"),
        ("a: !!bool perhaps\n", "a value does not fit its tag"),
        ("a: !!timestamp soon\n", "a value does not fit its tag"),
        ("a: !!int ''\n", "a value does not fit its tag"),
        ("a: \x01\n", "unacceptable character|U\\+0001"),
        ("[" * 1000, "nested too deeply|nested more than 480 levels deep"),
        ("a: [\n", "c.yaml:2:1: not YAML"),
    ],
)
def test_the_real_problem_of_a_yaml_file(refused, tmp_path, content, sentence):
    (tmp_path / "c.yaml").write_text(content)
    assert re.search(sentence, refused("estimate", "c.yaml", *LLAMA))
    assert re.search(sentence, refused("estimate", "--model", "7B", "--hardware", "c.yaml"))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ('"5e8"', "write it without quotes, as 500000000"),
        ("1e30", "it is a number from 0 to 1e18"),
        ('"1e30"', "it is a number from 0 to 1e18"),
        ('"many"', "it is a number"),
        ("true", "it is a number"),
        ("1" * 5000, "it is a number from 0 to 1e18"),
        ("1" * 400, "it is a number from 0 to 1e18"),
        ("[" * 100_000, "nested more than 480 levels deep"),
    ],
)
def test_the_real_problem_of_a_number(refused, tmp_path, value, sentence):
    content = f'{{"zero_optimization": {{"stage": 2, "reduce_bucket_size": {value}}}}}'
    (tmp_path / "c.json").write_text(content)
    assert refused("estimate", "c.json", *LLAMA).endswith(sentence)


# --- releases ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--deepspeed-version", "0.15.4"), "zeroconf writes for DeepSpeed 0.16.0 and newer"),
        (("--accelerate-version", "0.34"), "zeroconf writes for Accelerate 1.0.0 and newer"),
        (("--python", "/bin/cat"), "--deepspeed-version"),
        (("--python", "lonely/bin/python"), "--deepspeed-version"),
    ],
)
def test_releases_that_cannot_be_written_for(refused, tmp_path, options, sentence):
    lonely = tmp_path / "lonely" / "bin" / "python"
    lonely.parent.mkdir(parents=True)
    lonely.touch()
    assert sentence in refused(*GENERATE, "--dry-run", *options)


def test_a_release_newer_than_known_says_so():
    note = "DeepSpeed 99.0.0 is newer than the newest known, 0.19.8: its keys were not checked"
    assert note in read_versions("99.0.0").source
    assert "Accelerate 99 is newer" in read_versions(None, "99").source
    for known in ("0.16", "0.19.8", "0.19.8.0"):
        assert "were not checked" not in read_versions(known).source


@pytest.mark.parametrize("option", ["-o", "--accelerate", "--launch"])
def test_a_line_break_in_an_outputs_name_is_refused_before_anything_is_written(run, tmp_path, option):
    code, _, err = run("generate", *LLAMA, option, "a\nb")
    assert (code, err) == (2, "error: the path 'a\\nb' holds a line break or control character; rename it\n")
    assert not list(tmp_path.iterdir())
