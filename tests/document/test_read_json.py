"""The JSON reader against Python's json, and what it says of broken texts."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroconf.document.document import Document
from zeroconf.document.json import read_json
from zeroconf.document.read import parse_document
from zeroconf.document.trouble import SyntaxTrouble

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
INDENTS = st.sampled_from([None, 0, 2, "\t"])


def same(one: object, other: object) -> bool:
    """Equal, NaN included, and of the same types."""
    return json.dumps(one) == json.dumps(other)


@given(VALUES, INDENTS, st.booleans(), st.sampled_from(["\n", "\r\n", "\r"]))
def test_values_and_places_are_those_of_json(value, indent, ascii_only, line_break):
    text = json.dumps({"value": value}, indent=indent, ensure_ascii=ascii_only).replace("\n", line_break)
    content = text.encode(errors="replace")
    document = parse_document(content, "x.json")
    assert document.root is not None
    assert same(document.root.plain(), json.loads(content))
    for _, member, node in document.root.walk():
        assert same(json.loads(document.text[node.start : node.end]), node.plain())
        if member:
            assert json.loads(document.text[member.start : member.end]) == member.key


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", (1, 1), "empty"),
        ('{"a": 1', (1, 8), "before the } for the { of line 1"),
        ('{"a" 1}', (1, 5), "colon is missing"),
        ('{\n  "a": 1\n  "b": 2\n}', (2, 9), "comma is missing"),
        ('{"a": 1]', (1, 8), "needs its }"),
        ('{"a": }', (1, 7), "value is missing"),
        ("{,}", (1, 2), "key is missing"),
        ('{"a": True}', (1, 7), "JSON writes true"),
        ("{'a': 1}", (1, 2), "single quotes"),
        ("{“a”: 1}", (1, 2), "typographic"),
        ('{"a": .5}', (1, 7), "no number"),
        ('{"a": "x\n"}', (1, 7), "not closed"),
        ('{"a": "\\q"}', (1, 8), "no escape"),
        ('{"a": "\t"}', (1, 8), "U+0009"),
        ('{"a": 1}}', (1, 9), "after the end"),
        ('{"a": 1, /*', (1, 10), "not closed"),
        ('{"a": \x00}', (1, 7), "x00"),
    ],
)
def test_a_slip_is_named_at_its_place(text, position, words):
    with pytest.raises(SyntaxTrouble, match=re.escape(words)) as caught:
        read_json(text)
    assert Document("x.json", text, "json", "ds_config").position(caught.value.start) == position


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1 "b": 2}', "comma is missing"),
        ('{"a": {"b": 1}', "before the } for the { of line 1"),
        ("{'a': 1,\n 'b': }", "value is missing"),
        ('{"a": tru', "tru is a value without quotes"),
        ("[1, 2]", "a configuration is a mapping"),
        ("", "empty"),
    ],
)
def test_what_hjson_cannot_read_either_has_one_mark(text, words):
    document = parse_document(text.encode(), "x.json")
    (mark,) = document.marks
    assert words in mark.detail
    assert document.root is None


def test_comments_and_trailing_commas_are_marks_beside_values():
    document = parse_document(b'{"a": [1, 2,], // one\n "b": 1, /* two */ # three\n}', "x.json")
    assert document.root is not None
    assert document.root.plain() == {"a": [1, 2], "b": 1}
    shown = [(mark.what, document.text[mark.start : mark.end]) for mark in document.marks]
    assert shown == [
        ("trailing-comma", ","),
        ("comment", "// one"),
        ("comment", "/* two */"),
        ("comment", "# three"),
        ("trailing-comma", ","),
    ]


def test_second_keys_are_marks_with_their_path():
    document = parse_document(b'{"z": {"stage": 2, "stage": 3}}', "x.json")
    (mark,) = document.marks
    assert (mark.what, mark.detail, mark.path, mark.start) == ("duplicate", "stage", ("z", "stage"), 19)
    assert document.root is not None
    assert document.root.plain() == {"z": {"stage": 3}}


@pytest.mark.parametrize("digits", [400, 4300, 4301, 100_000])
def test_numbers_of_any_length_are_read(digits):
    root, _ = read_json("[-1e400, " + "9" * digits + "]")
    first, second = root.plain()
    assert first == -math.inf
    assert second == (int("9" * digits) if digits <= 4300 else math.inf)


def test_nesting_has_a_limit_and_no_recursion():
    deep = parse_document(b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "x.json")
    assert [mark.what for mark in deep.marks] == ["too-deep"]
    root, _ = read_json("[" * 480 + "]" * 480)
    assert root.plain() == json.loads("[" * 480 + "]" * 480)


@pytest.mark.parametrize(
    ("content", "marks"),
    [
        (b"\xef\xbb\xbf{}", ["bom"]),
        ('{"a": 1}'.encode("utf-16"), ["encoding"]),
        (b'{"caf\xe9": 1}', ["encoding"]),
    ],
)
def test_bytes_that_are_no_plain_utf8_are_read_and_marked(content, marks):
    document = parse_document(content, "x.json")
    assert document.root is not None
    assert [mark.what for mark in document.marks] == marks
