"""Makes ``tests/builders.py`` importable under ``--import-mode=importlib``; the command line in this process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs the command line in an empty folder: (exit code, stdout, stderr)."""
    from zeroconf import cli  # noqa: PLC0415  (only for the tests that run it)

    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["zeroconf", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call
