"""JSON with the place of every value, and with comments and trailing commas, which DeepSpeed's hjson lets pass.

On valid JSON the values are those of Python's ``json.loads``. Linear in the length of the text, without recursion.
"""

from __future__ import annotations

import json
import json.decoder
import re
from typing import TYPE_CHECKING, Any

from zeroconf.document.document import Mark
from zeroconf.document.node import Member, Node
from zeroconf.document.trouble import MAX_DEPTH, string_trouble, too_deep, trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zeroconf.document.node import Path

_GAP = r"[ \t\n\r]*"
_PLAIN = r'"[^"\\\x00-\x1f]*"'
_SCALAR = rf"({_PLAIN})|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)|(true|false|null|NaN|-?Infinity)"
_TOKEN = re.compile(rf'{_GAP}(?:{_SCALAR}|([,:{{}}\[\]])|("))')
_STRING, _NUMBER, _WORD, _PUNCTUATION, _ESCAPED = range(1, 6)
_STRINGS = (_STRING, _ESCAPED)
# most of a file: one more scalar in its container, read in one match
_NEXT_SCALAR = {
    "sequence": re.compile(rf"{_GAP},{_GAP}(?:{_SCALAR})(?=[ \t\n\r,\]])"),
    "mapping": re.compile(rf"{_GAP},{_GAP}({_PLAIN}){_GAP}:{_GAP}(?:{_SCALAR})(?=[ \t\n\r,}}])"),
}
_COMMENT = re.compile(r"[ \t\n\r]*(//[^\n\r]*|#[^\n\r]*|/\*.*?\*/)", re.DOTALL)
_SPACE = re.compile(r"[ \t\n\r]*")
# not in the library's stubs, but there since Python 2.6 and public by its name
_scan_string: Callable[[str, int], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]
_WORDS = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_MAX_DIGITS = 4300  # beyond it int() refuses, and with it json.loads


def read_json(text: str) -> tuple[Node, list[Mark]]:
    """The root value and the marks of comments, trailing commas and second keys.

    Raises:
        SyntaxTrouble: the text is no JSON.
    """
    return _Reader(text).read()


def number(text: str) -> float:
    """The number that Python's json makes of the text; infinite for an integer beyond its digit limit."""
    if text.lstrip("-").isdigit() and len(text) <= _MAX_DIGITS:
        return int(text)
    return float(text)


def duplicates(members: list[Member], path: Path) -> Iterator[Mark]:
    """A mark on every second and later key of a mapping."""
    seen: set[str] = set()
    for member in members:
        if member.key in seen:
            yield Mark("duplicate", member.start, member.end, member.key, (*path, member.key))
        seen.add(member.key)


class _Reader:
    """One pass over the text; ``open`` holds the containers around the place, innermost last."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.marks: list[Mark] = []
        self.open: list[Node] = []

    def read(self) -> tuple[Node, list[Mark]]:
        """Values until the root is complete, then nothing but space and comments."""
        token, start, end = self._next(0, "value")
        root = node = self._value(token, start, end, "value")
        while True:
            if node.kind != "scalar" and node.end == node.start:
                self.open.append(node)
                if len(self.open) > MAX_DEPTH:
                    raise too_deep(node.start)
                after = self._first(node)
            else:
                after = self._after(node)
            if after is None:
                break
            node = after
        self._only_space(root.end)
        return root, self.marks

    def _first(self, holder: Node) -> Node | None:
        """The first value in a container that was just opened; the container itself when it is empty."""
        state = "first key" if holder.kind == "mapping" else "first item"
        token, start, end = self._next(holder.start + 1, state)
        if token == _PUNCTUATION and self.text[start] == ("}" if holder.kind == "mapping" else "]"):
            return self._close(end)
        return self._below(holder, token, start, end, state)

    def _after(self, node: Node) -> Node | None:
        """What follows a complete value: the next one, or the container that ends here; None after the root."""
        if not self.open:
            return None
        holder = self.open[-1]
        before = self._scalars(holder, node.end)
        token, start, end = self._next(before, "comma")
        char = self.text[start]
        closing = "}" if holder.kind == "mapping" else "]"
        if token == _PUNCTUATION and char == closing:
            return self._close(end)
        if token != _PUNCTUATION or char != ",":
            raise trouble(self.text, start, "comma", holder, before)
        comma = start
        state = "key" if holder.kind == "mapping" else "item"
        token, start, end = self._next(end, state)
        if token == _PUNCTUATION and self.text[start] == closing:
            self.marks.append(Mark("trailing-comma", comma, comma + 1, path=self._path()))
            return self._close(end)
        return self._below(holder, token, start, end, state)

    def _scalars(self, holder: Node, position: int) -> int:
        """Takes in the scalars that follow without comments, escapes or slips; where they end."""
        text = self.text
        match_next = _NEXT_SCALAR[holder.kind].match
        members = holder.kind == "mapping"
        while match := match_next(text, position):
            kind = match.lastindex or 0
            start, position = match.span(kind)
            written = match[kind]
            if members:
                kind -= 1
            value = number(written) if kind == _NUMBER else written[1:-1] if kind == _STRING else _WORDS[written]
            node = Node("scalar", value, start, position)
            if members:
                key_start, key_end = match.span(1)
                holder.value.append(Member(text[key_start + 1 : key_end - 1], key_start, key_end, node))
            else:
                holder.value.append(node)
        return position

    def _close(self, end: int) -> Node:
        holder = self.open[-1]
        holder.end = end
        members = holder.members
        if members and len({member.key for member in members}) != len(members):
            self.marks += duplicates(members, self._path())
        return self.open.pop()

    def _below(self, holder: Node, token: int, start: int, end: int, state: str) -> Node:
        """A new value of the container, behind its key in a mapping."""
        if holder.kind == "sequence":
            node = self._value(token, start, end, state)
            holder.value.append(node)
            return node
        if token not in _STRINGS:
            raise trouble(self.text, start, state, holder, start)
        key, key_end = self._string(token, start, end)
        token, colon, end = self._next(key_end, "colon")
        if token != _PUNCTUATION or self.text[colon] != ":":
            raise trouble(self.text, colon, "colon", holder, key_end)
        token, value_start, end = self._next(end, "value")
        node = self._value(token, value_start, end, "value")
        holder.value.append(Member(key, start, key_end, node))
        return node

    def _value(self, token: int, start: int, end: int, state: str) -> Node:
        """A scalar, or a container just opened, its end still unknown."""
        value: Any
        if token in _STRINGS:
            value, end = self._string(token, start, end)
        elif token == _NUMBER:
            value = number(self.text[start:end])
        elif token == _WORD:
            value = _WORDS[self.text[start:end]]
        elif self.text[start] == "{":
            return Node("mapping", [], start, start)
        elif self.text[start] == "[":
            return Node("sequence", [], start, start)
        else:
            raise trouble(self.text, start, state, self.open[-1] if self.open else None, start)
        return Node("scalar", value, start, end)

    def _string(self, token: int, start: int, end: int) -> tuple[str, int]:
        if token == _STRING:
            return self.text[start + 1 : end - 1], end
        try:
            value, end = _scan_string(self.text, start + 1)
        except json.JSONDecodeError as error:
            raise string_trouble(self.text, start, error.pos) from None
        return value, end

    def _next(self, position: int, state: str) -> tuple[int, int, int]:
        """The kind and the place of the next token, comments skipped and marked."""
        while True:
            match = _TOKEN.match(self.text, position)
            if match is not None and match.lastindex is not None:
                kind = match.lastindex
                return kind, match.start(kind), match.end(kind)
            comment = _COMMENT.match(self.text, position)
            if comment is None:
                start = self._skip(position)
                raise trouble(self.text, start, state, self.open[-1] if self.open else None, position)
            self.marks.append(Mark("comment", *comment.span(1), path=self._path()))
            position = comment.end()

    def _only_space(self, position: int) -> None:
        while comment := _COMMENT.match(self.text, position):
            self.marks.append(Mark("comment", *comment.span(1)))
            position = comment.end()
        start = self._skip(position)
        if start < len(self.text):
            raise trouble(self.text, start, "end", None, position)

    def _skip(self, position: int) -> int:
        space = _SPACE.match(self.text, position)
        return space.end() if space else position

    def _path(self) -> Path:
        """The path of the innermost open container."""
        return tuple(
            holder.value[-1].key if holder.kind == "mapping" else len(holder.value) - 1 for holder in self.open[:-1]
        )
