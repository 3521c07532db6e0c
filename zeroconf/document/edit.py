"""What an edit is, and the lines and indentation of a text."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_INDENT = re.compile(r"[ \t]*")
_SPACE = re.compile(r"\s*")


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


@lru_cache(maxsize=4)  # many edits of one text
def line_starts(text: str) -> list[int]:
    """Where each line starts; CR LF, LF and a lone CR end one."""
    return [0, *(end.end() for end in _LINE_BREAK.finditer(text))]


def line_start(text: str, position: int) -> int:
    """The start of the line that holds the position."""
    starts = line_starts(text)
    return starts[bisect_right(starts, position) - 1]


def starts_line(text: str, position: int) -> bool:
    """Whether the position's line has nothing but blanks before it."""
    blanks = _SPACE.match(text, line_start(text, position), position)
    return blanks is not None and blanks.end() == position


def ends_line(text: str, position: int) -> bool:
    """Whether nothing but blanks follows on the position's line."""
    end = line_end(text, position)
    blanks = _SPACE.match(text, position, end)
    return blanks is not None and blanks.end() == end


def line_end(text: str, position: int) -> int:
    """Behind the line break that ends the line of the position; the end of the text without one."""
    starts = line_starts(text)
    below = bisect_right(starts, position)
    return starts[below] if below < len(starts) else len(text)


@lru_cache(maxsize=4)
def line_break(text: str) -> str:
    """The line break that the text uses: its first."""
    first = _LINE_BREAK.search(text)
    return first.group() if first else "\n"


def indent_at(text: str, position: int) -> str:
    """The blanks that start the line of the position."""
    indent = _INDENT.match(text, line_start(text, position))
    return indent.group() if indent else ""
