"""The rest of HJSON, as the hjson package reads it, which is what DeepSpeed opens its configuration with.

Beside comments and trailing commas it takes keys and strings without quotes, single quotes, text in triple quotes,
missing commas and a root without braces. Each one is a mark: Accelerate and the Trainer read with json.load, which
takes none of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from zeroconf.document.document import Mark
from zeroconf.document.json import duplicates, number
from zeroconf.document.node import Member, Node
from zeroconf.document.trouble import MAX_DEPTH, PYTHON_WORDS, SyntaxTrouble, string_trouble, too_deep, trouble

if TYPE_CHECKING:
    from zeroconf.document.node import Path

_SPACE = re.compile(r"[ \t\n\r]*")
_COMMENT = re.compile(r"//[^\n\r]*|#[^\n\r]*|/\*.*?\*/", re.DOTALL)
_BARE_KEY = re.compile(r"([^:{}\[\], \t\n\r]+)([ \t\n\r]*)(?=:)")
_BARE_VALUE = re.compile(r"(?:[^\r\n,}\]#/]|/(?![/*]))*")
_LINE = re.compile(r"[^\r\n]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)[\t ]*")
_STRING_PART = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_INDENT = " \t\r"
_WORDS = {"true": True, "false": False, "null": None}


def read_hjson(text: str) -> tuple[Node, list[Mark]]:
    """The root value and a mark for everything that JSON has not.

    Raises:
        SyntaxTrouble: hjson does not read the text either.
    """
    return _Reader(text).read()


class _Reader:
    """One pass over the text; ``open`` holds the containers around the place, innermost last."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.marks: list[Mark] = []
        self.open: list[Node] = []
        self.braces = True

    def read(self) -> tuple[Node, list[Mark]]:
        """Values until the root is complete, then nothing but space and comments."""
        start = self._gap(0)
        root = self._root(start)
        position = start + 1 if self.braces else start
        while self.open:
            if len(self.open) > MAX_DEPTH:
                raise too_deep(self.open[-1].start)
            position = self._step(self.open[-1], position)
        position = self._gap(position)
        if position < len(self.text):
            raise trouble(self.text, position, "end", None, position)
        return root, self.marks

    def _root(self, start: int) -> Node:
        char = self.text[start : start + 1]
        if not char:
            raise trouble(self.text, start, "value", None, start)
        root = Node("sequence" if char == "[" else "mapping", [], start, start)
        self.braces = char in "{["
        self.open.append(root)
        if not self.braces:
            self.marks.append(Mark("missing-braces", start, start))
        return root

    def _step(self, holder: Node, position: int) -> int:
        """One more member or item, or the end of the container; where it ends, or where the new container starts."""
        before = holder.value[-1] if holder.value else None
        position = self._gap(position)
        comma = position
        if before is not None and self.text[position : position + 1] == ",":
            position = self._gap(position + 1)
        if self._closes(holder, position):
            return self._close(holder, comma, position)
        last = before.node if isinstance(before, Member) else before
        swallowed = last is not None and self.text[last.end - 1] == ","
        if last is not None and comma == position and not swallowed:
            self.marks.append(Mark("missing-comma", last.end, last.end, path=self._path()))
        if holder.kind == "sequence":
            return self._value(holder, None, position)
        key, key_end = self._key(holder, position)
        colon = self._gap(key_end)
        if self.text[colon : colon + 1] != ":":
            raise trouble(self.text, colon, "colon", holder, key_end)
        return self._value(holder, (key, position, key_end), self._gap(colon + 1))

    def _closes(self, holder: Node, position: int) -> bool:
        char = self.text[position : position + 1]
        if len(self.open) == 1 and not self.braces:
            return not char and bool(holder.value)
        return char == ("}" if holder.kind == "mapping" else "]")

    def _close(self, holder: Node, comma: int, position: int) -> int:
        if comma < position:
            self.marks.append(Mark("trailing-comma", comma, comma + 1, path=self._path()))
        if self.text[position : position + 1]:
            position += 1
            holder.end = position
        else:
            holder.end = holder.members[-1].node.end
        self.marks += duplicates(holder.members, self._path())
        self.open.pop()
        return position

    def _key(self, holder: Node, position: int) -> tuple[str, int]:
        char = self.text[position : position + 1]
        if char and char in "\"'":
            key, end = self._string(position)
            if char == "'":
                self.marks.append(Mark("single-quotes", position, end, key, self._path()))
            return key, end
        match = _BARE_KEY.match(self.text, position)
        if match is None:
            raise trouble(self.text, position, "key", holder, position)
        self.marks.append(Mark("unquoted-key", *match.span(1), match[1], self._path()))
        return match[1].rstrip() if match[2] else match[1], match.end(1)

    def _value(self, holder: Node, key: tuple[str, int, int] | None, position: int) -> int:
        char = self.text[position : position + 1]
        if not char or char in "}],:":
            raise trouble(self.text, position, "value" if key else "item", holder, position)
        value: Any
        node = Node("scalar", None, position, position)
        holder.value.append(Member(*key, node) if key else node)
        if char in "{[":
            node.kind = "mapping" if char == "{" else "sequence"
            node.value = []
            self.open.append(node)
            return position + 1
        if self.text.startswith("'''", position):
            value, node.end = self._multiline(position)
            self._mark("multiline-string", node, value)
        elif char in "\"'":
            value, node.end = self._string(position)
            if char == "'":
                self._mark("single-quotes", node, value)
        else:
            value, position = self._bare(position)
            # hjson strips more than JSON's blanks: the place ends before them, the reading goes on behind
            node.end = node.start + len(self.text[node.start : position].rstrip())
            if isinstance(value, str):
                python = value.rstrip(",") in PYTHON_WORDS
                self._mark("python-literal" if python else "unquoted-string", node, value)
            node.value = value
            return position
        node.value = value
        return node.end

    def _mark(self, what: str, node: Node, value: str) -> None:
        holder = self.open[-1]
        step = holder.value[-1].key if holder.kind == "mapping" else len(holder.value) - 1
        self.marks.append(Mark(what, node.start, node.end, value, (*self._path(), step)))

    def _bare(self, start: int) -> tuple[Any, int]:
        """A word of JSON or a number up to the next sign, otherwise a string up to the line's end; where it ends."""
        match = _BARE_VALUE.match(self.text, start)
        end = match.end() if match else start
        written = self.text[start:end].rstrip()
        if written in _WORDS:
            return _WORDS[written], end
        digits = _NUMBER.match(self.text, start)
        if digits and digits.end() == end:
            return number(digits[1]), end
        line = _LINE.match(self.text, start)
        return (line.group().strip(), line.end()) if line else ("", start + 1)

    def _string(self, start: int) -> tuple[str, int]:
        part = _STRING_PART[self.text[start]]
        position = start + 1
        parts: list[str] = []
        while match := part.match(self.text, position):
            parts.append(match.group())
            position = match.end()
            char = self.text[position : position + 1]
            if char == self.text[start]:
                break
            if char != "\\":
                raise string_trouble(self.text, start, position)
            escaped, position = self._escape(start, position)
            parts.append(escaped)
        return "".join(parts), position + 1

    def _escape(self, start: int, position: int) -> tuple[str, int]:
        char = self.text[position + 1 : position + 2]
        if char in _ESCAPES:
            return _ESCAPES[char], position + 2
        code = _HEX.match(self.text, position + 2) if char == "u" else None
        if code is None:
            raise string_trouble(self.text, start, position)
        first = int(code.group(), 16)
        second = _HEX.match(self.text, position + 8) if self.text.startswith("\\u", position + 6) else None
        if second and 0xD800 <= first < 0xDC00 <= int(second.group(), 16) < 0xE000:
            return chr(0x10000 + (first - 0xD800 << 10) + int(second.group(), 16) - 0xDC00), position + 12
        return chr(first), position + 6

    def _multiline(self, start: int) -> tuple[str, int]:
        """Text in triple quotes: each line loses as much indentation as the line of the opening quotes has."""
        line_break = self.text.rfind("\n", 0, start)
        if line_break < 0:
            # hjson looks for the start of the line beyond the start of the text, from its end
            line_break = self.text.rfind("\n") - len(self.text)
        end = self.text.find("'''", start + 3)
        if end < 0 or line_break < -len(self.text):
            raise SyntaxTrouble(start, start + 3, "''' is not closed: its second ''' is missing")
        indent = start - line_break - 1
        first, *lines = self.text[start + 3 : end].split("\n")
        lines = [line[min(indent, len(line) - len(line.lstrip(_INDENT))) :] for line in lines]
        first = first.lstrip(_INDENT)
        value = "\n".join([first, *lines] if first else lines)
        return value.replace("\r", "").removesuffix("\n"), end + 3

    def _gap(self, position: int) -> int:
        """Behind space and comments, which are marked."""
        while True:
            space = _SPACE.match(self.text, position)
            position = space.end() if space else position
            comment = _COMMENT.match(self.text, position)
            if comment is None:
                if self.text.startswith("/*", position):
                    raise trouble(self.text, position, "value", None, position)
                return position
            self.marks.append(Mark("comment", *comment.span(), path=self._path()))
            position = comment.end()

    def _path(self) -> Path:
        """The path of the innermost open container."""
        return tuple(
            holder.value[-1].key if holder.kind == "mapping" else len(holder.value) - 1 for holder in self.open[:-1]
        )
