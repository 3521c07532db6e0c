"""Patterns for files of a project, read as gitignore reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_PIECE = re.compile(r"\*+|\?|\[[!^]?\]?[^\]]*\]|.", re.DOTALL)
_BRACES = re.compile(r"\{[^{}]*,[^{}]*\}")


class Pattern(NamedTuple):
    """A pattern as it is written; ``flaw`` says why it can match nothing, empty where it can."""

    written: str
    regex: re.Pattern[str]
    flaw: str = ""

    def matches(self, inside: str) -> bool:
        """Whether it matches a path, from the project's folder and with slashes, or a folder on the way there."""
        return not self.flaw and self.regex.fullmatch(inside) is not None


def read_pattern(written: str, folder: Path) -> Pattern:
    """A pattern of the project in a folder (absolute).

    Without a slash before its end it is for a name at any depth, else for a path from the folder. ``*`` stays within
    one step of the path, ``**/`` stands for any number of folders, none among them.
    """
    path, flaw = written, ""
    if Path(path).is_absolute():
        try:
            path = Path(path).relative_to(folder).as_posix()
        except ValueError:
            flaw = f"it lies outside of {folder}"
    steps = [step for step in path.split("/") if step not in {"", "."}]
    if ".." in steps:
        flaw = f"it leads out of {folder}"
    elif _BRACES.search(path):
        flaw = "braces stand for themselves; write one pattern for each choice"
    if len(steps) == 1 and not path.startswith(("./", "/")) and path == written:
        steps = ["**", *steps]
    return Pattern(written, re.compile(_regex(steps)), flaw)


def _regex(steps: list[str]) -> str:
    """A regular expression for a path of these steps, or anything below it."""
    *folders, last = steps or ["**"]
    before = "".join("(?:[^/]+/)*" if step == "**" else f"{_step(step)}/" for step in folders)
    return before + (".+" if last == "**" else f"{_step(last)}(?:/.+)?")


def _step(step: str) -> str:
    return "".join(_piece(piece) for piece in _PIECE.findall(step))


def _piece(piece: str) -> str:
    if piece.startswith("*"):
        return "[^/]*"
    if piece == "?":
        return "[^/]"
    if len(piece) > 1:
        is_not = piece[1] in "!^"
        inside = piece[1 + is_not : -1].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
        return f"[{'^' if is_not else ''}{inside}]"
    return re.escape(piece)
