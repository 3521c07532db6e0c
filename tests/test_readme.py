"""The README shows what the commands really print, and its commands are the ones that CI runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DRY_RUN = ROOT / "docs/dry-run.md"


def blocks(page):
    """The commands of a page's console blocks, each with its output."""
    text = page.read_text(encoding="utf-8")
    shown = "\n".join(re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    return re.findall(r"^\$ zeroconf (.*?)\n(.*?)(?=^\$|\Z)", shown, re.MULTILINE | re.DOTALL)


BLOCKS = blocks(README)
FILES = re.findall(
    r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)


def matches(shown: list[str], printed: list[str]) -> bool:
    """Line by line; a line ``...`` stands for any number of lines."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(matches(shown[1:], printed[skip:]) for skip in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and matches(shown[1:], printed[1:])


def test_the_readme_has_examples():
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize(("command", "output"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_shown_output_is_real(command, output, tmp_path):
    for name, content in FILES:
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert_shown(command, output, tmp_path)


def assert_shown(command, output, folder):
    ran = subprocess.run(
        [sys.executable, "-m", "zeroconf", *shlex.split(command)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == int(command.startswith("lint")), ran.stderr
    assert matches(output.rstrip().splitlines(), ran.stdout.splitlines()), ran.stdout


@pytest.mark.launch
def test_the_dry_run_page_shows_what_is_printed(tmp_path):
    shown = blocks(DRY_RUN)
    assert [command.split()[0] for command, _ in shown] == ["generate", "smoke-test"]
    for command, output in shown:
        assert_shown(command, output, tmp_path)


def test_ci_runs_the_readmes_commands():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    for name in ("first-command", "test-command"):
        assert name in script
        assert f"<!-- {name} -->" in text
