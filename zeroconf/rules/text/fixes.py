"""HJSON's own syntax as edits to plain JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zeroconf.document.edit import Edit, ends_line, line_end, line_start, starts_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zeroconf.document.document import Document, Mark

_PYTHON = {"True": "true", "False": "false", "None": "null"}


def as_json(document: Document, marks: Iterable[Mark]) -> tuple[Edit, ...]:
    """The edits that leave nothing of HJSON in a text, but for Python's words and texts that took in a comma."""
    return tuple(edit for mark in marks for edit in _plain(document, mark))


def quoted(mark: Mark, text: str | None = None) -> tuple[Edit, ...]:
    """A text without quotes gets them (or becomes ``text``), and the comma that it took in stands behind it."""
    word = mark.detail.rstrip(",").rstrip()
    comma = "," if mark.detail.endswith(",") else ""
    return (Edit(mark.start, mark.end, (text or json.dumps(word, ensure_ascii=False)) + comma),)


def python_word(word: str) -> str:
    """What JSON writes for Python's True, False and None."""
    return _PYTHON[word]


def _plain(document: Document, mark: Mark) -> Iterator[Edit]:
    if mark.what == "comment":
        yield _without_comment(document.text, mark)
    elif mark.what == "trailing-comma":
        yield Edit(mark.start, mark.end, "")
    elif mark.what == "missing-comma":
        yield Edit(mark.start, mark.end, ",")
    elif mark.what == "missing-braces" and document.root is not None:
        yield Edit(mark.start, mark.start, "{")
        yield Edit(document.root.end, document.root.end, "}")
    elif mark.what == "unquoted-string" and mark.detail.endswith(","):
        yield from quoted(mark)
    elif mark.what in {"unquoted-key", "unquoted-string", "single-quotes", "multiline-string"}:
        yield Edit(mark.start, mark.end, json.dumps(mark.detail))


def _without_comment(text: str, mark: Mark) -> Edit:
    """A comment goes with its line when it has one of its own, otherwise with the blanks before it."""
    start, first = mark.start, line_start(text, mark.start)
    if not ends_line(text, mark.end):
        return Edit(start, mark.end, "")
    if starts_line(text, start):
        return Edit(first, line_end(text, mark.end), "")
    while start > first and text[start - 1].isspace():
        start -= 1
    return Edit(start, mark.end, "")
