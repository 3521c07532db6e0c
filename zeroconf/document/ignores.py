"""What a file asks to be ignored, and why: ``_zeroconf.ignore`` in JSON, ``# zeroconf: ignore[...]`` elsewhere."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document
    from zeroconf.document.node import Node, Path

PATH: Path = ("_zeroconf", "ignore")
_COMMENT = re.compile(r"(?<!\S)#[ \t]*zeroconf:[ \t]*ignore\b(?:\[([^\]\r\n]*)\])?([^\r\n]*)")
_RULE = re.compile(r"[^\s,]+")


class Ignore(NamedTuple):
    """``rule`` as it is written, at ``start`` to ``end``; ``line`` is None where it holds for the whole file.

    ``path`` leads to it in a JSON file; a comment has none. A comment that names no rule in brackets has an empty
    ``rule``.
    """

    rule: str
    reason: str
    line: int | None
    start: int
    end: int
    path: Path = ()


def read_ignores(document: Document) -> list[Ignore]:
    """In the order of the text.

    A comment behind a value is for its line, a comment on a line of its own for the next line that holds more than
    a comment, and one above everything else for the whole file.
    """
    if "zeroconf" not in document.text:
        return []
    if document.syntax == "json":
        node = document.root.at(PATH) if document.root else None
        return list(_members(node)) if node else []
    return list(_comments(document))


def _members(node: Node) -> Iterator[Ignore]:
    for member in node.members:
        reason = member.node.value
        reason = reason.strip() if isinstance(reason, str) else ""
        yield Ignore(member.key, reason, None, member.start, member.end, (*PATH, member.key))
    for index, item in enumerate(node.items):
        yield Ignore(str(item.plain()), "", None, item.start, item.end, (*PATH, index))
    if isinstance(node.value, str):
        yield Ignore(node.value, "", None, node.start, node.end, PATH)


def _comments(document: Document) -> Iterator[Ignore]:
    text = document.text
    scalars = [node for _, _, node in document.root.walk() if node.kind == "scalar"] if document.root else []
    starts = [node.start for node in scalars]
    for comment in _COMMENT.finditer(text):
        before = bisect_right(starts, comment.start()) - 1
        if before >= 0 and comment.start() < scalars[before].end:
            continue  # text in a string
        line = _line(document, comment.start())
        rules = list(_RULE.finditer(comment[1] or ""))
        if not rules:
            yield Ignore("", "", line, *comment.span())
        for rule in rules:
            start, end = comment.start(1) + rule.start(), comment.start(1) + rule.end()
            yield Ignore(rule[0], comment[2].strip(), line, start, end)


def _line(document: Document, place: int) -> int | None:
    """The line that a comment is about."""
    number, column = document.position(place)
    if document.line(number)[: column - 1].strip():
        return number
    if not any(_holds_more(document.line(above)) for above in range(1, number)):
        return None
    last, _ = document.position(len(document.text))
    return next((below for below in range(number + 1, last + 1) if _holds_more(document.line(below))), number)


def _holds_more(line: str) -> bool:
    """Whether a line holds more than a comment, or YAML's mark of a new document."""
    return line.strip() not in {"", "---"} and not line.lstrip().startswith("#")
