"""Fixes as edits of the text: only the spans concerned change, so comments and formatting survive.

Every function gives edits for ``apply``, and none at all where the document leaves no way to do it: a path that it
has not, or a value that stands elsewhere (behind a YAML merge key).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroconf.document import flow
from zeroconf.document.edit import Edit, apply, indent_at, line_break, line_start

if TYPE_CHECKING:
    from zeroconf.document.document import Document
    from zeroconf.document.node import Node, Path

__all__ = ["Edit", "Fix", "apply", "insert", "move", "remove", "rename", "replace"]


@dataclass(frozen=True, slots=True)
class Fix:
    """What would cure a finding. ``safe``: the meaning intended by the file cannot change."""

    title: str
    edits: tuple[Edit, ...]
    safe: bool = True


def replace(document: Document, path: Path, value: Any) -> tuple[Edit, ...]:
    """The value at the path becomes another plain value."""
    node = document.root.at(path) if document.root else None
    if node is None:
        return ()
    indent = indent_at(document.text, node.start)
    on_lines = "\n" in document.text[node.start : node.end] or "\r" in document.text[node.start : node.end]
    return (Edit(node.start, node.end, _written(document, value, indent, on_lines=on_lines)),)


def rename(document: Document, path: Path, key: str) -> tuple[Edit, ...]:
    """The key at the path becomes another key."""
    holder = document.root.at(path[:-1]) if document.root and path else None
    if holder is None:
        return ()
    written = json.dumps(key)
    return tuple(Edit(member.start, member.end, written) for member in holder.members if member.key == path[-1])


def remove(document: Document, path: Path) -> tuple[Edit, ...]:
    """The member at the path goes, with its comma and its line when it has one of its own."""
    holder = document.root.at(path[:-1]) if document.root and path else None
    if holder is None:
        return ()
    step = path[-1]
    if isinstance(step, int):
        return flow.remove(document.text, holder, step) if holder.child(step) else ()
    member = holder.member(step)
    return flow.remove(document.text, holder, holder.members.index(member)) if member else ()


def insert(document: Document, path: Path, value: Any) -> tuple[Edit, ...]:
    """A new last member at the path; the mapping that holds it must exist. A member that is there is replaced."""
    holder = document.root.at(path[:-1]) if document.root and path else None
    if holder is None or holder.kind != "mapping":
        return ()
    if holder.child(path[-1]):
        return replace(document, path, value)
    on_lines = _on_lines(document.text, holder)
    return flow.insert(
        document.text,
        holder,
        json.dumps(path[-1]),
        lambda indent: _written(document, value, indent, on_lines=on_lines),
    )


def move(document: Document, path: Path, to: Path) -> tuple[Edit, ...]:
    """The member goes to another path, its value's text as it is; the mapping there is created when missing.

    A value that is already there stays, and nothing moves.
    """
    node = document.root.at(path) if document.root else None
    if document.root is None or node is None or not to or to[: len(path)] == path or document.root.at(to):
        return ()
    if to[:-1] == path[:-1]:
        return rename(document, path, str(to[-1]))
    depth = next(depth for depth in range(len(to) - 1, -1, -1) if document.root.at(to[:depth]))
    holder = document.root.at(to[:depth])
    if holder is None or holder.kind != "mapping":
        return ()
    raw = document.text[node.start : node.end]
    old = indent_at(document.text, node.start)
    added = flow.insert(
        document.text,
        holder,
        json.dumps(to[depth]),
        lambda indent: _nested(to[depth + 1 :], _indented(raw, old, indent)),
    )
    return (*remove(document, path), *added)


def _nested(keys: Path, value: str) -> str:
    for key in reversed(keys):
        value = "{" + json.dumps(key) + ": " + value + "}"
    return value


def _indented(raw: str, old: str, new: str) -> str:
    """The lines after the first, moved from one indentation to another."""
    first, *lines = raw.splitlines(keepends=True) or [""]
    return "".join((first, *(new + line.removeprefix(old) for line in lines)))


def _written(document: Document, value: Any, indent: str, *, on_lines: bool) -> str:
    if not on_lines or not isinstance(value, dict) or not value:
        return json.dumps(value)
    inner = indent + _unit(document)
    newline = line_break(document.text)
    members = (f"{json.dumps(key)}: {_written(document, item, inner, on_lines=True)}" for key, item in value.items())
    return "{" + newline + inner + f",{newline}{inner}".join(members) + newline + indent + "}"


def _unit(document: Document) -> str:
    """One level of indentation: that of the first member of the root."""
    members = document.root.members if document.root else []
    before = document.text[line_start(document.text, members[0].start) : members[0].start] if members else ""
    return before if before and not before.strip() else "  "


def _on_lines(text: str, holder: Node) -> bool:
    members = holder.members
    return bool(members) and not text[line_start(text, members[-1].start) : members[-1].start].strip()
