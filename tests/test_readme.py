"""The README's two commands are the ones that CI runs."""

from __future__ import annotations

from with_writers import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_ci_runs_the_readmes_commands():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    for name in ("first-command", "test-command"):
        assert name in script
        assert f"<!-- {name} -->" in README
