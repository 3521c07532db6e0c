"""Fixes as edits of the text: only the spans concerned change, so comments and formatting survive.

Every function gives edits for ``apply``, and none at all where the document leaves no way to do it: a path that it
has not, or a member that stands elsewhere (behind an alias or a merge key of YAML).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroconf.document import block, flow
from zeroconf.document.edit import Edit, apply, indent_at, line_end, line_start
from zeroconf.document.holders import (
    has_anchor,
    has_quoted_keys,
    holder_of,
    is_block,
    is_on_lines,
    is_own,
    own_members,
    places,
)
from zeroconf.document.moves import lines, nested, wrapped
from zeroconf.document.written import flow_text, key_text, lines_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zeroconf.document.document import Document
    from zeroconf.document.node import Member, Node, Path

__all__ = ["Edit", "Fix", "apply", "insert", "move", "remove", "remove_all", "remove_member", "rename", "replace"]

_ALIAS = re.compile(r"(?:^|[\s\[{,])\*[^\s,\[\]{}]")


@dataclass(frozen=True, slots=True)
class Fix:
    """What would cure a finding. ``safe``: the meaning intended by the file cannot change.

    ``makes`` is the path of the key that the file has only afterwards: what a mistyped key becomes.
    """

    title: str
    edits: tuple[Edit, ...]
    safe: bool = True
    makes: Path | None = None


def replace(document: Document, path: Path, value: Any) -> tuple[Edit, ...]:
    """The value at the path becomes another plain value."""
    node = document.root.at(path) if document.root else None
    if node is None or (path and holder_of(document, path) is None) or has_anchor(document, node.start, node.end):
        return ()
    written = document.text[node.start : node.end]
    if written.startswith("{") and ("\n" in written or "\r" in written):
        text = lines_text(document, value, indent_at(document.text, node.start))
    else:
        text = flow_text(document, value)
    if not written:
        text = " " + text  # the place of a YAML null that is not written is right behind its colon
    elif written.startswith("-") and node.kind == "sequence" and document.syntax == "yaml":
        text = "  " + text  # a block list may stand as far left as its key, nothing else may
    return (Edit(node.start, node.end, text),)


def rename(document: Document, path: Path, key: str) -> tuple[Edit, ...]:
    """The key at the path becomes another key, everywhere that the mapping has it."""
    holder = holder_of(document, path)
    if holder is None:
        return ()
    members = [member for member in holder.named(str(path[-1])) if is_own(holder, member)]
    return tuple(
        Edit(member.start, member.end, key_text(document, key, quoted=document.text[member.start] in "\"'"))
        for member in members
    )


def remove(document: Document, path: Path) -> tuple[Edit, ...]:
    """The member or item at the path goes, with its comma and its line when it has one of its own.

    A key that stands twice goes only where a reader sees it: the last time.
    """
    holder = holder_of(document, path)
    if holder is None:
        return ()
    step = path[-1]
    if isinstance(step, int):
        return _remove(document, holder, step)
    member = holder.member(step)
    return remove_member(document, holder, member) if member else ()


def remove_all(document: Document, path: Path, keys: Sequence[str]) -> tuple[Edit, ...]:
    """Several members of the mapping at the path go; no edits at all where one of them cannot."""
    holder = holder_of(document, (*path, keys[0]))
    members = [holder.member(key) for key in keys] if holder else []
    own = own_members(holder) if holder else {}
    indexes = sorted(own[member] for member in members if member in own)
    if holder is None or len(indexes) < len(keys):
        return ()
    # neighbours go as one, so that the last ones take the comma before them along
    starts = [index for index in indexes if index - 1 not in indexes]
    ends = [index for index in indexes if index + 1 not in indexes]
    runs = [_remove(document, holder, first, last) for first, last in zip(starts, ends, strict=True)]
    return tuple(edit for run in runs for edit in run) if all(runs) else ()


def remove_member(document: Document, holder: Node, member: Member) -> tuple[Edit, ...]:
    """One member of a mapping goes: for a key that stands there twice."""
    index = own_members(holder).get(member)
    return () if index is None else _remove(document, holder, index)


def insert(document: Document, path: Path, value: Any) -> tuple[Edit, ...]:
    """A new last member at the path; the mapping that holds it must exist. A member that is there is replaced."""
    holder = holder_of(document, path)
    if holder is None or holder.kind != "mapping":
        return ()
    if holder.child(path[-1]):
        return replace(document, path, value)
    key = str(path[-1])
    if is_block(document, holder):
        return _insert_block(document, holder, lambda _: f"{key_text(document, key)}: {flow_text(document, value)}")
    text = lines_text if is_on_lines(document, holder) else flow_text
    return _insert_flow(document, holder, key, lambda indent: text(document, value, indent))


def move(document: Document, path: Path, to: Path) -> tuple[Edit, ...]:
    """The member goes to another path, its value's text as it is; the mapping there is created when missing.

    A value that is already there stays, and nothing moves.
    """
    root = document.root
    source = holder_of(document, path)
    member = source.member(path[-1]) if source and isinstance(path[-1], str) else None
    if root is None or source is None or member is None or not to or to[: len(path)] == path or root.at(to):
        return ()
    if to[:-1] == path[:-1]:
        return rename(document, path, str(to[-1]))
    if document.syntax == "yaml" and _ALIAS.search(document.text, member.node.start, member.node.end):
        return ()
    depth = next(depth for depth in range(len(to) - 1, -1, -1) if root.at(to[:depth]))
    holder = holder_of(document, to[: depth + 1])
    keys = [str(step) for step in to[depth:]]
    return _moved(document, source, member, holder, keys) if holder and holder.kind == "mapping" else ()


def _moved(document: Document, source: Node, member: Member, holder: Node, keys: list[str]) -> tuple[Edit, ...]:
    if source is holder:
        return wrapped(document, holder, member, keys)
    removed = remove_member(document, source, member)
    if is_block(document, holder):
        added = _insert_block(document, holder, lambda indent: lines(document, source, member, keys, indent))
    else:
        note = flow.comment_behind(document.text, member.node.end)
        inner = keys[1:]
        added = _insert_flow(
            document, holder, keys[0], lambda indent: nested(document, member.node, inner, indent), note=note
        )
    return (*removed, *added) if removed and added else ()


def _remove(document: Document, holder: Node, index: int, last: int | None = None) -> tuple[Edit, ...]:
    text, found = document.text, places(document, holder)
    if index >= len(found):
        return ()
    start, end = found[index]
    if last is not None and last > index:
        end = found[last][1]
        found = [*found[:index], (start, end), *found[last + 1 :]]
    if document.syntax == "hostfile":
        return (Edit(line_start(text, start), line_end(text, end), ""),)
    # from the line's start: an anchor stands before the place of its value
    if has_anchor(document, line_start(text, start), end):
        return ()
    remove_in = block.remove if is_block(document, holder) else flow.remove
    return remove_in(text, holder, found, index)


def _insert_flow(
    document: Document, holder: Node, key: str, value: Callable[[str], str], *, note: str = ""
) -> tuple[Edit, ...]:
    written = key_text(document, key, quoted=has_quoted_keys(document, holder))
    return flow.insert(document.text, holder, written, value, is_json=document.syntax == "json", note=note)


def _insert_block(document: Document, holder: Node, member: Callable[[str], str]) -> tuple[Edit, ...]:
    own = places(document, holder)
    return block.insert(document.text, own[0][0], own[-1][1], member) if own else ()
