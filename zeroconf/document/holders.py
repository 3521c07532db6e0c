"""The containers that edits change: found by path, and told apart by the way they are written."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from zeroconf.document.block import item_start
from zeroconf.document.edit import starts_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document, Mark
    from zeroconf.document.node import Member, Node, Path

_ANCHOR = re.compile(r"(?:^|(?<=[\s\[{,]))&[^\s,\[\]{}]")
# a file with very many findings asks for the same few containers again and again
_remembered = lru_cache(maxsize=16)


def holder_of(document: Document, path: Path) -> Node | None:
    """The container of a path's last step, when its members can be edited where it stands."""
    holder = document.root.at(path[:-1]) if document.root and path else None
    if holder is None or document.text[holder.start : holder.start + 1] == "*":
        return None
    inner = holder.child(path[-1])
    is_inside = inner is None or holder.start <= inner.start <= inner.end <= holder.end
    return holder if is_inside else None


def is_own(holder: Node, member: Member) -> bool:
    """Whether the member stands in the mapping itself, not behind a merge key."""
    return holder.start <= member.start < holder.end


@_remembered
def own_members(holder: Node) -> dict[Member, int]:
    """The members that stand in the mapping itself, in order, with their indexes."""
    own = (member for member in holder.members if is_own(holder, member))
    return {member: index for index, member in enumerate(own)}


@_remembered
def places(document: Document, holder: Node) -> list[tuple[int, int]]:
    """Start and end of each own member, or of each item: from its dash in YAML's block style."""
    if holder.kind == "mapping":
        return [(member.start, member.node.end) for member in own_members(holder)]
    if not is_block(document, holder):
        return [(item.start, item.end) for item in holder.items]
    return [(item_start(document.text, holder, item.start), item.end) for item in holder.items]


@_remembered
def has_quoted_keys(document: Document, holder: Node) -> bool:
    """Whether a key of the mapping is written in quotes."""
    return any(document.text[member.start] in "\"'" for member in own_members(holder))


def repeated_members(document: Document) -> Iterator[tuple[Mark, Node, Member, Member]]:
    """For each mark of a second key: the mapping, the member before it under that key, and the member itself."""
    found: dict[Path, dict[int, tuple[Member, Member]]] = {}
    for mark in document.marks:
        holder = document.root.at(mark.path[:-1]) if document.root and mark.what == "duplicate" else None
        if holder is None:
            continue
        if mark.path not in found:
            found[mark.path] = {pair[1].start: pair for pair in pairwise(holder.named(str(mark.path[-1])))}
        if mark.start in found[mark.path]:  # not so in a mapping that stands twice itself: readers see the last one
            yield mark, holder, *found[mark.path][mark.start]


def is_block(document: Document, holder: Node) -> bool:
    """Whether lines and indentation hold the container together, as in YAML's block style."""
    return document.syntax == "yaml" and document.text[holder.start : holder.start + 1] not in {"{", "["}


def is_on_lines(document: Document, holder: Node) -> bool:
    """Whether the last member starts its line."""
    last = holder.members[-1].start if holder.members else 0
    return bool(holder.members) and starts_line(document.text, last)


def has_anchor(document: Document, start: int, end: int) -> bool:
    """Whether aliases elsewhere may need the text."""
    if document.syntax != "yaml":
        return False
    anchors = _anchors(document)
    after = bisect_left(anchors, start)
    return after < len(anchors) and anchors[after] < end


@_remembered
def _anchors(document: Document) -> list[int]:
    return [anchor.start() for anchor in _ANCHOR.finditer(document.text)]
