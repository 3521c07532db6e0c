"""The containers that edits change: found by path, and told apart by the way they are written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zeroconf.document.edit import line_start

if TYPE_CHECKING:
    from zeroconf.document.document import Document
    from zeroconf.document.node import Member, Node, Path

_ANCHOR = re.compile(r"(?:^|[\s\[{,])&[^\s,\[\]{}]")


def holder_of(document: Document, path: Path) -> Node | None:
    """The container of a path's last step, when its members can be edited where it stands."""
    holder = document.root.at(path[:-1]) if document.root and path else None
    if holder is None or document.text[holder.start : holder.start + 1] == "*":
        return None
    inner = holder.child(path[-1])
    is_inside = inner is None or holder.start <= inner.start <= inner.end <= holder.end
    return holder if is_inside else None


def own_members(holder: Node) -> list[Member]:
    """The members that stand in the mapping itself, not behind a merge key."""
    return [member for member in holder.members if holder.start <= member.start < holder.end]


def is_block(document: Document, holder: Node) -> bool:
    """Whether lines and indentation hold the container together, as in YAML's block style."""
    return document.syntax == "yaml" and document.text[holder.start : holder.start + 1] not in {"{", "["}


def is_on_lines(document: Document, holder: Node) -> bool:
    """Whether the last member starts its line."""
    last = holder.members[-1].start if holder.members else 0
    return bool(holder.members) and not document.text[line_start(document.text, last) : last].strip()


def has_anchor(document: Document, start: int, end: int) -> bool:
    """Whether aliases elsewhere may need the text."""
    return document.syntax == "yaml" and _ANCHOR.search(document.text, start, end) is not None
