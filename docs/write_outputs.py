"""Runs the pages' examples and writes what they print now: ``python docs/write_outputs.py [PAGE...]``.

An example is a line ``$ zeroconf ...`` of a ``console`` block with the output below it, in which a line ``...`` stands
for any number of lines; the cut stays where the lines around it are still found. The files that it reads stand on the
page behind ``<!-- file: NAME -->`` or are shown by ``$ cat NAME``. A block behind ``<!-- not run: WHY -->`` is left
alone. The examples of a page run in one folder, in their order. A test fails when they are stale.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parent.parent
CUT = "..."
_CONSOLE = re.compile(r"^(<!-- not run: \S.*-->\n)?```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^<!-- file: (\S+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_NOT_FOUND = 0.6  # of a line's likeness, below which it is another line


@dataclass(frozen=True)
class Example:
    """A command of a page, the output shown, and where that stands in the page's text."""

    command: str
    output: tuple[str, ...]
    start: int
    end: int

    @property
    def words(self) -> list[str]:
        """The arguments of zeroconf."""
        return shlex.split(self.command)[1:]

    @property
    def launches(self) -> bool:
        """Whether it needs DeepSpeed."""
        return self.words[0] == "smoke-test" or any(word.startswith("--verify") for word in self.words)


def pages() -> list[Path]:
    """The README and the pages of ``docs/`` that are written by hand, in a fixed order."""
    return [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def _shown(text: str) -> list[Example]:
    run = (block for block in _CONSOLE.finditer(text) if block[1] is None)
    parts = (part for block in run for part in _COMMAND.finditer(text, block.start(2), block.end(2)))
    return [Example(part[1], tuple(part[2].splitlines()), part.start(2), part.end(2)) for part in parts]


def examples(text: str) -> list[Example]:
    """The examples of a page that are run."""
    return [one for one in _shown(text) if one.command.startswith("zeroconf ")]


def put_files(text: str, folder: Path) -> None:
    """Writes the files that a page shows."""
    shown = [(one.command.removeprefix("cat "), one.output) for one in _shown(text) if one.command.startswith("cat ")]
    for name, lines in [*((name, content.splitlines()) for name, content in _FILE.findall(text)), *shown]:
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def matches(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Line by line; a line ``...`` stands for any number of lines."""
    if not shown:
        return not printed
    if shown[0] == CUT:
        return any(matches(shown[1:], printed[skip:]) for skip in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and matches(shown[1:], printed[1:])


def renewed(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """What is printed, cut as ``shown`` is; whole where lines that were kept are no longer found."""
    if matches(shown, printed):
        return list(shown)
    chunks = [chunk.splitlines() for chunk in re.split(r"(?m)^\.\.\.$\n?", "".join(f"{line}\n" for line in shown))]
    result, at = [], 0
    for index, chunk in enumerate(chunks):
        first, last = index == 0, index == len(chunks) - 1
        starts = [0] if first else range(at, len(printed) - len(chunk) + 1)
        start = max(starts, key=lambda start: sum(_likenesses(chunk, printed[start:])), default=None)
        if start is None or min(_likenesses(chunk, printed[start:]), default=1.0) < _NOT_FOUND:
            return list(printed)
        end = len(printed) if last and (chunk or first) else start + len(chunk)
        result += [CUT, *printed[start:end]] if index else printed[start:end]
        at = end
    return result


def _likenesses(lines: Sequence[str], printed: Sequence[str]) -> list[float]:
    """How alike each line is to that of ``printed``, from its beginning, whatever their numbers are."""
    pairs = zip(*([re.sub(r"[\d.,]+", "#", line) for line in side] for side in (lines, printed)), strict=False)
    return [difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs]


def _printed(example: Example, folder: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-m", "zeroconf", *example.words]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return (ran.stdout or ran.stderr).rstrip().splitlines()


def text_of(page: Path) -> str:
    """A page with what its examples print now."""
    text = page.read_text(encoding="utf-8")
    parts, at = [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        put_files(text, folder)
        for one in examples(text):
            lines = renewed(one.output, _printed(one, folder))
            parts += [text[at : one.start], *(f"{line}\n" for line in lines)]
            at = one.end
    return "".join([*parts, text[at:]])


if __name__ == "__main__":
    for page in [Path(name) for name in sys.argv[1:]] or pages():
        page.write_text(text_of(page), encoding="utf-8")
