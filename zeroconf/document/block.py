"""Edits of mappings and lists in YAML's block style, where lines and indentation are the structure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document.edit import Edit, line_break, line_end, line_start, starts_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroconf.document.node import Node


def remove(text: str, holder: Node, places: list[tuple[int, int]], index: int) -> tuple[Edit, ...]:
    """One member or item goes with its lines; the last one leaves an empty container."""
    start, end = places[index]
    if len(places) == 1:
        return (Edit(start, end, "{}" if holder.kind == "mapping" else "[]"),)
    if starts_line(text, start):
        return (Edit(line_start(text, start), line_end(text, end), ""),)
    # the first in a "- key: value" item: what comes next takes its place
    after = places[index + 1][0] if index + 1 < len(places) else end
    return (Edit(start, after, ""),)


def item_start(text: str, holder: Node, start: int) -> int:
    """Where an item of a block list starts: at its dash."""
    return text.rfind("-", holder.start, start) if holder.kind == "sequence" else start


def insert(text: str, start: int, end: int, member: Callable[[str], str]) -> tuple[Edit, ...]:
    """A new last member where the first starts at ``start`` and the last ends at ``end``.

    ``member`` writes it at a given indentation.
    """
    indent = " " * (start - line_start(text, start))
    place = line_end(text, end)
    line = indent + member(indent)
    if text[place - 1 : place] in {"\n", "\r"}:
        return (Edit(place, place, line + line_break(text)),)
    return (Edit(place, place, line_break(text) + line),)


def reindented(lines: str, old: str, new: str) -> str:
    """Text whose lines after the first move from one indentation to another."""
    first, *rest = lines.splitlines(keepends=True) or [""]
    return "".join((first, *(new + line.removeprefix(old) if line.strip() else line for line in rest)))
