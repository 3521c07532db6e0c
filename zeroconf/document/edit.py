"""What an edit is, and the lines and indentation of a text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_INDENT = re.compile(r"[ \t]*")


@dataclass(frozen=True, slots=True)
class Edit:
    """``text[start:end]`` becomes ``text``; places in code points."""

    start: int
    end: int
    text: str


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text after all edits; edits at the same place come in the order given.

    Raises:
        ValueError: two edits overlap.
    """
    parts: list[str] = []
    position = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < position:
            msg = f"two edits overlap at {edit.start}"
            raise ValueError(msg)
        parts += text[position : edit.start], edit.text
        position = edit.end
    return "".join((*parts, text[position:]))


def line_start(text: str, position: int) -> int:
    """The start of the line that holds the position."""
    return max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1


def line_end(text: str, position: int) -> int:
    """Behind the line break that ends the line of the position; the end of the text without one."""
    end = _LINE_BREAK.search(text, position)
    return end.end() if end else len(text)


def line_break(text: str) -> str:
    """The line break that the text uses: its first."""
    first = _LINE_BREAK.search(text)
    return first.group() if first else "\n"


def indent_at(text: str, position: int) -> str:
    """The blanks that start the line of the position."""
    indent = _INDENT.match(text, line_start(text, position))
    return indent.group() if indent else ""
