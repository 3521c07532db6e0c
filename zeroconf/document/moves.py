"""A member that goes to another place, with its value as it is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zeroconf.document.block import reindented
from zeroconf.document.edit import Edit, indent_at, line_break, line_start
from zeroconf.document.holders import is_block
from zeroconf.document.written import flow_text, key_text

if TYPE_CHECKING:
    from zeroconf.document.document import Document
    from zeroconf.document.node import Member, Node

_REST_OF_LINE = re.compile(r"[^\r\n]*")


def nested(document: Document, node: Node, keys: list[str], indent: str) -> str:
    """The value's text in braces under further keys."""
    raw = document.text[node.start : node.end]
    if document.syntax == "json" or raw[:1] in ({'"', "'"} if node.kind == "scalar" else {"{", "["}):
        text = reindented(raw, indent_at(document.text, node.start), indent)
    else:
        text = flow_text(document, node.plain())
    for key in reversed(keys):
        text = "{" + key_text(document, key) + ": " + text + "}"
    return text


def lines(document: Document, source: Node, member: Member, keys: list[str], indent: str) -> str:
    """A member under new keys in YAML's block style, one a line, with the comment behind it."""
    end = member.node.end
    if is_block(document, source):
        rest = _REST_OF_LINE.match(document.text, end)
        end = rest.end() if rest else end
    return _lines(document, source, member, end, keys, indent)


def wrapped(document: Document, holder: Node, member: Member, keys: list[str]) -> tuple[Edit, ...]:
    """A member gets further keys around its value where it stands."""
    start, node = member.start, member.node
    if is_block(document, holder):
        indent = " " * (start - line_start(document.text, start))
        return (Edit(start, node.end, _lines(document, holder, member, node.end, keys, indent)),)
    key = key_text(document, keys[0], quoted=document.text[start] in "\"'")
    value = nested(document, node, keys[1:], indent_at(document.text, start))
    return Edit(start, member.end, key), Edit(node.start, node.end, value)


def _lines(document: Document, source: Node, member: Member, end: int, keys: list[str], indent: str) -> str:
    if is_block(document, source):
        raw = document.text[member.end : end]
    else:
        raw = ": " + flow_text(document, member.node.plain())
    old = " " * (member.start - line_start(document.text, member.start))
    deepest = indent + "  " * (len(keys) - 1)
    value = reindented(raw, old, deepest)
    heads = [
        f"{'' if level == 0 else indent + '  ' * level}{key_text(document, key)}" for level, key in enumerate(keys)
    ]
    return f":{line_break(document.text)}".join(heads) + value
