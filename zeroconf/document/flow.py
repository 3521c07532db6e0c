"""Edits of containers with braces or brackets and commas: all of JSON, and flow style in YAML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zeroconf.document.edit import Edit, ends_line, indent_at, line_break, line_end, line_start, starts_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroconf.document.node import Member, Node

_GAP = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|#[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_LINE_REST = re.compile(r"[ \t]*((?://|#)[^\r\n]*|/\*(?:(?!\*/)[^\r\n])*\*/[ \t]*)?(?=[\r\n]|$)")
_BLANKS = re.compile(r"[ \t]*")


def remove(text: str, holder: Node, places: list[tuple[int, int]], index: int) -> tuple[Edit, ...]:
    """One member or item goes, with its comma, and its line when nothing else stands there."""
    start, end = places[index]
    if len(places) == 1 and text[holder.start] in "{[":
        inside = text[holder.start + 1 : start] + text[end : holder.end - 1]
        if not inside.strip(" \t\r\n,"):
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


def comment_behind(text: str, end: int) -> str:
    """The comment that ends the line of a member, with the blanks before it, where nothing but a comma is between."""
    comma = _comma_after(text, end)
    rest = _LINE_REST.match(text, end if comma is None or "\n" in text[end:comma] else comma + 1)
    return rest.group().rstrip() if rest and rest.group(1) else ""


def insert(
    text: str, holder: Node, key: str, value: Callable[[str], str], *, is_json: bool, note: str = ""
) -> tuple[Edit, ...]:
    """A new last member: ``key`` as it is written, and ``value`` as it is written at a given indentation.

    ``note`` is a comment that comes along where the member gets a line of its own.
    """
    if not holder.members:
        return _first(text, holder, f"{key}: {value(indent_at(text, holder.start))}")
    last = holder.members[-1]
    end = last.node.end
    colon = _colon(text, last, key)
    # an unquoted string of HJSON ends with its line: a comma would become part of it
    bare = is_json and _is_bare(text, last.node)
    indent = indent_at(text, last.start)
    if not bare and not starts_line(text, last.start):
        return (Edit(end, end, f", {key}{colon}{value(indent)}"),)
    line = f"{line_break(text)}{indent}{key}{colon}{value(indent)}"
    comma = _comma_after(text, end)
    rest = _LINE_REST.match(text, end if comma is None else comma + 1)
    if rest is None or not rest.group(1):
        return (Edit(end, end, (line if bare else "," + line) + (note if ends_line(text, end) else "")),)
    if comma is not None:
        return (Edit(rest.end(), rest.end(), f"{line},{note}"),)
    return (*(() if bare else (Edit(end, end, ","),)), Edit(rest.end(), rest.end(), line + note))


def _first(text: str, holder: Node, member: str) -> tuple[Edit, ...]:
    if text[holder.start : holder.start + 1] != "{":
        return (Edit(holder.start, holder.end, member),)
    inside = text[holder.start + 1 : holder.end - 1]
    if not inside.strip():
        return (Edit(holder.start, holder.end, "{" + member + "}"),)
    return (Edit(holder.end - 1, holder.end - 1, member),)


def _is_bare(text: str, last: Node) -> bool:
    is_text = last.kind == "scalar" and isinstance(last.value, str)
    return is_text and text[last.start : last.start + 1] not in {'"', "'", "*"}


def _colon(text: str, last: Member, key: str) -> str:
    """The colon as the last member has it; a key without quotes needs a space behind it in YAML."""
    written = text[last.end : last.node.start]
    needs_space = key[:1] != '"' and not written.endswith(" ")
    is_plain = written.strip() == ":" and "\n" not in written and "\r" not in written
    return written if is_plain and not needs_space else ": "


def _comma_after(text: str, position: int) -> int | None:
    gap = _GAP.match(text, position)
    place = gap.end() if gap else position
    return place if text[place : place + 1] == "," else None


def _own_lines(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The whole lines of a member when it shares them with nothing but a comment behind it."""
    rest = _LINE_REST.match(text, end) if starts_line(text, start) else None
    return (line_start(text, start), line_end(text, rest.end())) if rest else None


def _skip_blanks(text: str, position: int) -> int:
    blanks = _BLANKS.match(text, position)
    return blanks.end() if blanks else position
