"""What is wrong with a text that is no JSON, in words that name the slip."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeroconf.document.node import Node

MAX_DEPTH = 480
"""Levels of nesting. A little deeper, hjson, copy.deepcopy and PyYAML end in a RecursionError."""

_WORD = re.compile(r"[^\s,:{}\[\]\"'#]+")
_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$|[-+]?0[xXoObB][0-9a-fA-F]+$")
_GLUED = re.compile(r"[-+.\w]*[0-9][-+.\w]$")  # a number and what stands right behind it
PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
_QUOTES = "\u2018\u2019\u201c\u201d\u00ab\u00bb"


class SyntaxTrouble(Exception):  # noqa: N818  (never leaves this package: it becomes a mark)
    """Where a text stops being JSON: ``text[start:end]``, the kind of the slip, and its message.

    ``what`` becomes the mark's; "dialect" for what HJSON takes in this place, where its own trouble says more.
    """

    def __init__(self, start: int, end: int, message: str, what: str = "syntax") -> None:
        super().__init__(message)
        self.start = start
        self.end = end
        self.message = message
        self.what = what


def too_deep(start: int) -> SyntaxTrouble:
    """More levels than the libraries can read."""
    message = f"nested more than {MAX_DEPTH} levels deep"
    return SyntaxTrouble(start, start + 1, message, "too-deep")


def string_trouble(text: str, start: int, position: int) -> SyntaxTrouble:
    """A string that opens at ``start`` and cannot be read at ``position``."""
    char = text[position : position + 1]
    if position > start and char == "u" and text[position - 1] == "\\":
        return SyntaxTrouble(position - 1, position + 1, "\\u takes four hexadecimal digits")
    if position > start and char == "\\":
        end = min(position + 2, len(text))
        return SyntaxTrouble(position, end, f"{text[position:end]} is no escape of JSON")
    if position > start and char and char not in "\r\n":
        words = f"a control character (U+{ord(char):04X}) in a string: JSON writes it as \\u{ord(char):04x}"
        return SyntaxTrouble(position, position + 1, words)
    end = min([where for where in (text.find("\n", start), text.find("\r", start)) if where >= 0], default=len(text))
    return SyntaxTrouble(start, end, "a string is not closed: its second quote is missing on this line")


def trouble(text: str, start: int, state: str, holder: Node | None, before: int) -> SyntaxTrouble:
    """What stands at ``start`` where ``state`` was expected; ``before`` is the end of what came before it."""
    char = text[start : start + 1]
    if not char:
        return _ended(text, state, holder)
    if state == "end":
        return SyntaxTrouble(start, start + 1, f"{_shown(text, start)} after the end of the JSON value")
    if char in "}]":
        return _closer(text, start, state, holder)
    glued = _GLUED.search(text, max(0, start - 40), start + 1) if state == "comma" and start == before else None
    if glued:
        return _no_number(start - len(glued.group()) + 1, text)
    message = _missing(text, start, state)
    if message:
        place = before if state in {"comma", "colon"} else start
        return SyntaxTrouble(place, place, message)
    return _word(text, start, state)


def _missing(text: str, start: int, state: str) -> str:
    """The sign or value that is left out before ``start``; empty when nothing is."""
    char = text[start]
    if text.startswith("/*", start):
        return "a comment is not closed: */ is missing"
    if state == "comma":
        return f"a comma is missing before {_shown(text, start)}"
    if state == "colon":
        return f"a colon is missing after the key, before {_shown(text, start)}"
    if char in ",:":
        return f"a {'key' if 'key' in state else 'value'} is missing before the {'comma' if char == ',' else 'colon'}"
    return ""


def _ended(text: str, state: str, holder: Node | None) -> SyntaxTrouble:
    end = len(text)
    if holder is not None:
        opener, closer = ("{", "}") if holder.kind == "mapping" else ("[", "]")
        line = text.count("\n", 0, holder.start) + 1
        return SyntaxTrouble(end, end, f"the file ends before the {closer} for the {opener} of line {line}")
    if state == "value" and not text.strip():
        return SyntaxTrouble(0, 0, "the file is empty", "empty")
    return SyntaxTrouble(end, end, "the file ends where a value is expected")


def _closer(text: str, start: int, state: str, holder: Node | None) -> SyntaxTrouble:
    if holder is None:
        message = f"{text[start]} closes nothing"
    elif state in {"value", "colon"}:
        message = f"a value is missing before the {text[start]}"
    else:
        opener, closer = ("{", "}") if holder.kind == "mapping" else ("[", "]")
        line = text.count("\n", 0, holder.start) + 1
        message = f"{text[start]} where the {opener} of line {line} needs its {closer}"
    return SyntaxTrouble(start, start + 1, message)


def _word(text: str, start: int, state: str) -> SyntaxTrouble:
    """A token that JSON has not: Python's words and quotes, bare text, other number formats."""
    char = text[start]
    is_key = "key" in state
    if char == "'":
        return SyntaxTrouble(start, start + 1, 'single quotes: JSON strings take double quotes (")', "dialect")
    if char in _QUOTES:
        return SyntaxTrouble(start, start + 1, f'typographic quotes ({char}): JSON strings take plain ones (")')
    match = _WORD.match(text, start)
    end = match.end() if match else start + 1
    word = text[start:end]
    if not is_key and word in PYTHON_WORDS:
        return SyntaxTrouble(start, end, f"{word} is Python: JSON writes {PYTHON_WORDS[word]}", "python-literal")
    if not is_key and _NUMBER.match(word):
        return _no_number(start, text)
    if word[:1].isprintable() and word[:1]:
        wanted = "a key" if is_key else "a value"
        message = f'{_shown(text, start)} is {wanted} without quotes: JSON needs "..." around it'
        return SyntaxTrouble(start, end, message, "dialect" if is_key else "syntax")
    return SyntaxTrouble(start, start + 1, f"{_shown(text, start)} is no part of JSON")


def _no_number(start: int, text: str) -> SyntaxTrouble:
    match = _WORD.match(text, start)
    end = match.end() if match else start + 1
    message = f"{_shown(text, start)} is no number of JSON, which takes forms like 12, -0.5 and 1e-8"
    return SyntaxTrouble(start, end, message)


def _shown(text: str, start: int) -> str:
    """The token at a place, short and printable, for a message."""
    match = _WORD.match(text, start)
    word = text[start : match.end()] if match else text[start : start + 1]
    short = word if len(word) <= 30 else word[:29] + "…"
    return short if short.isprintable() else ascii(short)[1:-1]
