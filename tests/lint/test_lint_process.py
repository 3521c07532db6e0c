"""The linter as a process: what it loads, and odd streams, signals and files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from lint_texts import BAD, GOOD

# what the installed command runs
ENTRY = [sys.executable, "-c", "from zeroconf.entry import script; script()", "lint"]
# each costs more than a tenth of the time that a whole run may take, or drags in one that does
HEAVY = {
    "asyncio",
    "deepspeed",
    "difflib",
    "hashlib",
    "importlib.metadata",
    "importlib.resources",
    "jsonschema",
    "pydantic",
    "torch",
    "tomllib",
    "unicodedata",
    "yaml",
    "zeroconf.api",
    "zeroconf.estimate",
    "zeroconf.inputs.project",
    "zeroconf.inputs.versions",
    "zeroconf.plan",
    "zeroconf.render.sarif",
    "zeroconf.types",
}
LIST_MODULES = """
import sys
sys.argv = ["zeroconf", "lint", *sys.argv[1:]]
from zeroconf.entry import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def modules(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", LIST_MODULES, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode in {0, 1}, done.stderr
    return set(done.stderr.split())


def test_linting_a_json_file_loads_nothing_heavy(tmp_path):
    (tmp_path / "a.json").write_text(BAD)
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\n")
    for output_format in ("text", "concise", "json", "github"):
        loaded = modules(tmp_path, "a.json", "--format", output_format)
        assert "zeroconf.lint.run" in loaded
        assert not loaded & HEAVY


def test_settings_are_parsed_only_where_there_are_some(tmp_path):
    (tmp_path / "a.json").write_text(GOOD)
    (tmp_path / "pyproject.toml").write_text('[tool.zeroconf]\nfor = "trainer"\n')
    loaded = modules(tmp_path, "a.json")
    assert loaded & HEAVY == {"tomllib", "zeroconf.inputs.project"}


def shell(redirections, *arguments, cwd, **options):
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {redirections}', "sh", *ENTRY, *arguments],
        cwd=cwd, capture_output=True, text=True, check=False, **options,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_keep_the_exit_code(tmp_path, closed):
    (tmp_path / "a.json").write_text(BAD)
    code, _, err = shell(closed, "a.json", cwd=tmp_path)
    assert (code, err) == (1, "")


def test_closed_standard_input(tmp_path):
    code, _, err = shell("<&-", "-", cwd=tmp_path)
    assert (code, err) == (2, "error: -: cannot be read (standard input is closed)\n")


def test_a_reader_that_leaves_is_no_failure(tmp_path):
    for number in range(300):
        (tmp_path / f"{number}.json").write_text(BAD)
    process = subprocess.Popen([*ENTRY, "."], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) in {0, 1}


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_any_name_on_any_stream(tmp_path, encoding):
    name = os.fsdecode("日本\n".encode() + b"\xff.json")
    (tmp_path / name).write_text(BAD)
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "1"}
    for output_format in ("text", "json", "sarif", "github"):
        code, out, err = shell("", name, "--format", output_format, cwd=tmp_path, env=environment)
        assert (code, err) == (1, "")
        assert "offload-param-below-stage-3" in out
        if output_format == "json":
            assert json.loads(out)["findings"][0]["path"] == name


def test_interrupted_while_reading(tmp_path):
    process = subprocess.Popen(
        [*ENTRY, "-"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(1)  # before it waits for input, the signal ends it all the same
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) in {(130, ""), (-signal.SIGINT, "")}
    assert "Traceback" not in err


def test_large_files(tmp_path):
    # long lines with a finding at the end, and nothing at all
    padding = '"padding": [' + "1, " * 30_000 + "1]"
    (tmp_path / "a.json").write_text(BAD.replace('{"train', "{" + padding + ', "train', 1))
    (tmp_path / "zero.json").write_bytes(bytes(1_000_000))
    code, out, err = shell("", "a.json", "zero.json", cwd=tmp_path)
    assert (code, err) == (1, "")
    assert "offload_param" in out
    assert max(map(len, out.splitlines())) < 250


def test_a_file_too_large_for_a_configuration(tmp_path):
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(100_000_000)
    code, _, err = shell("", "a.json", cwd=tmp_path)
    assert (code, err) == (2, "error: a.json: larger than 64,000,000 bytes, so not a configuration\n")


def test_colours_are_for_terminals(tmp_path):
    (tmp_path / "a.json").write_text(BAD)
    assert "\x1b" not in shell("", "a.json", cwd=tmp_path)[1]
