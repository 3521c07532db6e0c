"""A Python dict that was pasted into a JSON file: recognised, and written as JSON."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections import Counter
from typing import Any

from zeroconf.document.document import Mark
from zeroconf.document.edit import Edit, apply
from zeroconf.document.trouble import PYTHON_WORDS

_TOKEN = re.compile(
    r"""(?P<string>'(?:[^'\\\r\n]|\\.)*'|"(?:[^"\\\r\n]|\\.)*")|(?P<comment>[ \t]*\#[^\r\n]*)"""
    r"""|(?P<word>\b(?:True|False|None)\b)|(?P<comma>,(?=\s*[}\])]))"""
)
_LARGEST_TEXT = 200_000


def python_dict(text: str) -> Mark | None:
    """A mark at the first thing of a Python dict that is no JSON; None where the text is no such dict.

    Nothing is run: only literals are read.
    """
    edits = _edits(text) if isinstance(_literal(text), dict) else ()
    if not edits:
        return None
    counts = Counter(_shown(text[edit.start : edit.end]) for edit in edits)
    found = ", ".join(f"{count} x {words}" if count > 1 else words for words, count in counts.items())
    message = f"this is a Python dict, write JSON: {found}; JSON takes double quotes, true, false and null"
    return Mark("python-dict", edits[0].start, edits[0].end, message)


def json_of_dict(text: str) -> tuple[Edit, ...]:
    """The edits that make JSON of a Python dict; none where they would not keep every value."""
    edits = _edits(text)
    try:
        is_same = json.loads(apply(text, edits)) == _literal(text)
    except ValueError:
        return ()
    return edits if is_same else ()


def _literal(text: str) -> Any:
    """The value of a Python literal; None for anything else."""
    if text.lstrip()[:1] != "{" or len(text) > _LARGEST_TEXT:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unknown escapes
            return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _edits(text: str) -> tuple[Edit, ...]:
    return tuple(
        Edit(*token.span(), written)
        for token in _TOKEN.finditer(text)
        if (written := _as_json(token)) is not None and written != token.group()
    )


def _as_json(token: re.Match[str]) -> str | None:
    """What JSON writes for a token; None where it is JSON, or cannot be."""
    if token["word"]:
        return PYTHON_WORDS[token["word"]]
    if not token["string"]:
        return ""
    if token["string"].startswith('"'):
        return None
    value = _literal_string(token["string"])
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _literal_string(written: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(written)
    except (SyntaxError, ValueError):
        return None
    return value if isinstance(value, str) else None


def _shown(written: str) -> str:
    if written in PYTHON_WORDS:
        return written
    first = written.lstrip()[:1]
    return {"'": "text in single quotes", "#": "comment", ",": "trailing comma"}[first]
