"""The command in this process, and rules made for one test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from zeroconf import cli
from zeroconf.rules import RULES
from zeroconf.rules.registry import rule

sys.path.insert(0, str(Path(__file__).parent))


SAMPLE = ("ZC001", "ZC002", "ZC030", "ZC031", "ZC032", "ZC240")


@pytest.fixture(autouse=True)
def _sample_of_rules(monkeypatch):
    """A few rules stand for all: what is tested here is what happens around them."""
    for code in [*RULES]:
        if code not in SAMPLE:
            monkeypatch.delitem(RULES, code)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes files into an empty current folder."""
    monkeypatch.chdir(tmp_path)

    def call(**files):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path

    return call


@pytest.fixture
def zeroconf(monkeypatch, capsys):
    """Runs the command line: (exit code, stdout, stderr)."""

    def call(*arguments, stdin=None):
        if stdin is not None:
            done = CliRunner().invoke(cli.cli, list(arguments), input=stdin)
            return done.exit_code, done.stdout, done.stderr
        monkeypatch.setattr("sys.argv", ["zeroconf", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


@pytest.fixture
def make_rule():
    """Registers a rule for one test only."""
    made = []

    def call(check, code="ZC901", name=None, severity="error"):
        rule(code, name or f"made-for-{code.lower()}", severity=severity)(check)
        made.append(code)
        return RULES[code]

    yield call
    for code in made:
        del RULES[code]
