"""Edits of containers with braces or brackets and commas: all of JSON, and flow style in YAML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zeroconf.document.edit import Edit, indent_at, line_break, line_end, line_start

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroconf.document.node import Node

_GAP = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|#[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_LINE_REST = re.compile(r"[ \t]*((?://|#)[^\r\n]*|/\*(?:(?!\*/)[^\r\n])*\*/[ \t]*)?(?=[\r\n]|$)")
_BLANKS = re.compile(r"[ \t]*")


def spans(holder: Node) -> list[tuple[int, int]]:
    """Where each member (with its key) or item stands."""
    if holder.kind == "mapping":
        return [(member.start, member.node.end) for member in holder.members]
    return [(item.start, item.end) for item in holder.items]


def remove(text: str, holder: Node, index: int) -> tuple[Edit, ...]:
    """One member or item goes, with its comma, and its line when nothing else stands there."""
    places = spans(holder)
    start, end = places[index]
    inside = text[holder.start + 1 : start] + text[end : holder.end - 1]
    if len(places) == 1 and text[holder.start] in "{[" and not inside.strip(" \t\r\n,"):
        return (Edit(holder.start + 1, holder.end - 1, ""),)
    comma = _comma_after(text, end)
    if comma is not None:
        own = _own_lines(text, start, comma + 1)
        return (Edit(*own, ""),) if own else (Edit(start, _skip_blanks(text, comma + 1), ""),)
    before = _comma_after(text, places[index - 1][1]) if index else None
    if before is not None and not text[before + 1 : start].strip():
        return (Edit(before, end, ""),)
    own = _own_lines(text, start, end)
    rest = Edit(*own, "") if own else Edit(start, end, "")
    return (rest,) if before is None else (Edit(before, before + 1, ""), rest)


def insert(text: str, holder: Node, key: str, value: Callable[[str], str]) -> tuple[Edit, ...]:
    """A new last member: ``key`` as it is written, and ``value`` as it is written at a given indentation."""
    places = spans(holder)
    if not places:
        return _first(text, holder, f"{key}: {value(indent_at(text, holder.start))}")
    start, end = places[-1]
    colon = _colon(text, holder)
    on_lines = not text[line_start(text, start) : start].strip()
    if not on_lines:
        indent = indent_at(text, start)
        return (Edit(end, end, f", {key}{colon}{value(indent)}"),)
    indent = text[line_start(text, start) : start]
    line = f"{line_break(text)}{indent}{key}{colon}{value(indent)}"
    # an unquoted string of HJSON ends with its line: a comma would become part of it
    bare = _is_bare(text, holder)
    comma = _comma_after(text, end)
    rest = _LINE_REST.match(text, end if comma is None else comma + 1)
    if rest is None or not rest.group(1):
        return (Edit(end, end, line if bare else "," + line),)
    if comma is not None:
        return (Edit(rest.end(), rest.end(), line + ","),)
    return (*(() if bare else (Edit(end, end, ","),)), Edit(rest.end(), rest.end(), line))


def _first(text: str, holder: Node, member: str) -> tuple[Edit, ...]:
    if text[holder.start : holder.start + 1] != "{":
        return (Edit(holder.start, holder.end, member),)
    inside = text[holder.start + 1 : holder.end - 1]
    if not inside.strip():
        return (Edit(holder.start, holder.end, "{" + member + "}"),)
    return (Edit(holder.end - 1, holder.end - 1, member),)


def _is_bare(text: str, holder: Node) -> bool:
    last = holder.members[-1].node if holder.kind == "mapping" else holder.items[-1]
    return last.kind == "scalar" and isinstance(last.value, str) and text[last.start] not in "\"'"


def _colon(text: str, holder: Node) -> str:
    last = holder.members[-1]
    written = text[last.end : last.node.start]
    return written if written.strip() == ":" and "\n" not in written and "\r" not in written else ": "


def _comma_after(text: str, position: int) -> int | None:
    gap = _GAP.match(text, position)
    place = gap.end() if gap else position
    return place if text[place : place + 1] == "," else None


def _own_lines(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The whole lines of a member when it shares them with nothing but a comment behind it."""
    first = line_start(text, start)
    rest = _LINE_REST.match(text, end)
    return (first, line_end(text, rest.end())) if rest and not text[first:start].strip() else None


def _skip_blanks(text: str, position: int) -> int:
    blanks = _BLANKS.match(text, position)
    return blanks.end() if blanks else position
