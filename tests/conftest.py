"""Makes ``tests/builders.py`` importable under ``--import-mode=importlib``; one cache; the order; the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from zeroconf.smoke.command import cache_directory
from zeroconf.smoke.worker.caches import build_directory

# each operator of DeepSpeed is compiled once, for all tests and by whichever needs it first, and kept for the next run
_CACHE = cache_directory().with_name("zeroconf-tests")
os.environ["ZEROCONF_CACHE"] = str(_CACHE)
os.environ["TORCH_EXTENSIONS_DIR"] = str(build_directory(_CACHE) / "extensions")
# this environment's ninja first, as in the ranks: what another release of it built, each builds again
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
# where it is set, each of the hundreds of commands that are run would compile the package anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# a busy machine fails no property
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items):
    """Files that launch first: they take longest, so that no worker is left alone with one at the end.

    The very first compiles DeepSpeed's operators, while the other worker has files that need none.
    """
    items.sort(key=lambda item: (item.path.stem != "test_dry_run", "integration" not in item.path.parts))


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs the command line in an empty folder: (exit code, stdout, stderr)."""
    from zeroconf import cli  # noqa: PLC0415  (only for the tests that run it)

    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["zeroconf", *map(str, arguments)])
        # as from the console script, however pytest was started
        monkeypatch.setattr(sys.modules["__main__"], "__package__", None)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        assert stop.value.code != 70, captured.err  # a fault is none of the outcomes that a test may expect
        return stop.value.code, captured.out, captured.err

    return call
