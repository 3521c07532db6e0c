"""A line of a file with a mark under the part that is meant, whatever the line holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeroconf.document.document import Document

_WIDTH = 100
_BEFORE = 30
_TAB = "    "
_LINE_END = re.compile(r"[\r\n]")


def excerpt(document: Document, start: int, end: int) -> tuple[str, str]:
    """The line that holds ``text[start:end]``, and carets for the line below; a long line is cut around the place."""
    text = document.text
    _, column = document.position(start)
    line_start = start - column + 1
    left = start - _BEFORE if column > _WIDTH else line_start
    line_end = _LINE_END.search(text, start, left + _WIDTH)
    right = line_end.start() if line_end else min(len(text), left + _WIDTH)
    is_cut = line_end is None and _LINE_END.match(text, right) is None and right < len(text)
    head = "..." if left > line_start else ""
    shown = head + printable(text[left:right]) + ("..." if is_cut else "")
    marked = cells(printable(text[start : max(start, min(end, right))]))
    return shown, " " * (len(head) + cells(printable(text[left:start]))) + "^" * max(1, marked)


def printable(text: str) -> str:
    """The text without what would move the cursor or change the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _TAB if char == "\t" else "?" for char in text)


def cells(text: str) -> int:
    """The columns that a terminal gives the text."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415  (most files are plain ASCII)

    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    marks = sum(unicodedata.combining(char) > 0 for char in text)
    return len(text) + wide - marks
