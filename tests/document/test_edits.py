"""Edits keep every byte that they need not change, and the text then holds exactly what was meant."""

from __future__ import annotations

import copy
import json
import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroconf.document.edits import apply, insert, move, remove, rename, replace
from zeroconf.document.json import read_json
from zeroconf.document.read import parse_document
from zeroconf.document.yaml import read_yaml

KEYS = st.sampled_from(["stage", "lr", "a b", "no", "1e5", "é", "x:y", 'q"', "#c", "fp16"])
SCALARS = st.sampled_from(
    [None, True, False, 0, -3, 1.5, 2e-05, "", "auto", "no", "5e8", "a, b", "x # y", "é", "l\nm", "'"]
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=10
)
MAPPINGS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=5)


def json_texts(value):
    """The value as JSON in the layouts that people write, with comments and trailing commas where they may stand."""
    dense = json.dumps(value)
    lines = json.dumps(value, indent=4, ensure_ascii=False)
    commented = re.sub(r",$", ", // a note", lines, flags=re.MULTILINE)
    commented = re.sub(r"([^{\[,\s])$(?=\n)", r"\1, # last", commented, flags=re.MULTILINE)
    return [dense, json.dumps(value, separators=(",", ":")), lines, lines.replace("\n", "\r\n"), "// top\n" + commented]


def yaml_texts(value):
    """The value as YAML in block, mixed and flow style, with comments."""
    layouts = [yaml.safe_dump(value, sort_keys=False, default_flow_style=flow) for flow in (False, None, True)]
    commented = ["# top\n" + re.sub(r"$(?=\n)", "  # note", text, flags=re.MULTILINE) for text in layouts[:2]]
    # a scalar over several lines takes no comment in its midst
    commented = [text for text in commented if yaml.safe_load(text) == value]
    return [*layouts, *commented, layouts[0].replace("\n", "\r\n"), layouts[0].rstrip("\n")]


@st.composite
def cases(draw):
    """A mapping, a path in it, and a document that holds it."""
    value = draw(MAPPINGS)
    path = draw(st.sampled_from(list(paths(value))))
    name, texts = draw(st.sampled_from([("x.json", json_texts), ("x.yaml", yaml_texts)]))
    document = parse_document(draw(st.sampled_from(texts(value))).encode(), name)
    return value, path, document


def reread(document, edits):
    text = apply(document.text, edits)
    root, _ = read_yaml(text) if document.syntax == "yaml" else read_json(text)
    if document.syntax == "yaml":
        assert root.plain() == yaml.safe_load(text)
    if "\r\n" in document.text:
        assert "\n" not in text.replace("\r\n", "")
    return root.plain()


def paths(value, below=()):
    for key, item in value.items():
        yield (*below, key)
        if isinstance(item, dict):
            yield from paths(item, (*below, key))


def holder_of(value, path):
    for step in path[:-1]:
        value = value[step]
    return value


def comments(text):
    return sorted(re.findall(r"(?:// a note|# last|// top|# top|# note)", text))


@settings(max_examples=50)
@given(cases(), st.data())
def test_replace(case, data):
    value, path, document = case
    new = data.draw(VALUES)
    wanted = copy.deepcopy(value)
    holder_of(wanted, path)[path[-1]] = new
    edits = replace(document, path, new)
    assert reread(document, edits) == wanted
    node = document.root.at(path)
    assert all(node.start <= edit.start <= edit.end <= node.end for edit in edits)


@settings(max_examples=50)
@given(cases(), st.data())
def test_rename(case, data):
    value, path, document = case
    holder = holder_of(value, path)
    new = data.draw(KEYS.filter(lambda key: key not in holder))
    wanted = copy.deepcopy(value)
    changed = holder_of(wanted, path)
    changed[new] = changed.pop(path[-1])
    edits = rename(document, path, new)
    assert reread(document, edits) == wanted
    assert comments(apply(document.text, edits)) == comments(document.text)


@settings(max_examples=50)
@given(cases())
def test_remove(case):
    value, path, document = case
    wanted = copy.deepcopy(value)
    del holder_of(wanted, path)[path[-1]]
    edits = remove(document, path)
    assert reread(document, edits) == wanted
    holder = document.root.at(path[:-1])
    member = holder.member(path[-1])
    before = [one.node.end for one in holder.members if one.node.end < member.start]
    after = [one.start for one in holder.members if one.start > member.node.end]
    start = max(before, default=min(holder.start, document.text.rfind("\n", 0, member.start) + 1))
    end = min(after, default=max(holder.end, document.text.find("\n", member.node.end) + 1))
    assert all(start <= edit.start <= edit.end <= end for edit in edits)


@settings(max_examples=50)
@given(cases(), st.data())
def test_insert(case, data):
    value, _, document = case
    mappings = [(), *(path for path in paths(value) if isinstance(holder_of(value, path)[path[-1]], dict))]
    path = (*data.draw(st.sampled_from(mappings)), data.draw(KEYS))
    new = data.draw(VALUES)
    wanted = copy.deepcopy(value)
    holder_of(wanted, path)[path[-1]] = new
    edits = insert(document, path, new)
    assert reread(document, edits) == wanted
    if path[-1] not in holder_of(value, path):
        assert comments(apply(document.text, edits)) == comments(document.text)


@settings(max_examples=50)
@given(cases(), st.data())
def test_move(case, data):
    value, path, document = case
    mappings = [(), *(one for one in paths(value) if isinstance(holder_of(value, one)[one[-1]], dict))]
    below = data.draw(st.lists(st.sampled_from(["new", "block"]), max_size=2))
    to = (*data.draw(st.sampled_from(mappings)), *below, "moved")
    if to[: len(path)] == path:
        return
    wanted = copy.deepcopy(value)
    moved = holder_of(wanted, path).pop(path[-1])
    holder = wanted
    for step in to[:-1]:
        holder = holder.setdefault(step, {})
    holder[to[-1]] = moved
    assert reread(document, move(document, path, to)) == wanted


def edited(text, edit, *arguments, name="x.json"):
    document = parse_document(text.encode(), name)
    return apply(document.text, edit(document, *arguments))


def test_a_pretty_json_keeps_its_shape():
    text = '{\n    "a": 1, // one\n    "b": {\n        "c": 2\n    }\n}\n'
    assert edited(text, remove, ("a",)) == '{\n    "b": {\n        "c": 2\n    }\n}\n'
    assert edited(text, remove, ("b",)) == '{\n    "a": 1 // one\n}\n'
    assert edited(text, insert, ("b", "d"), [1]) == text.replace("2\n", '2,\n        "d": [1]\n')
    assert edited(text, move, ("b", "c"), ("c",)) == '{\n    "a": 1, // one\n    "b": {},\n    "c": 2\n}\n'
    assert edited(text, move, ("b",), ("z", "b")) == (
        '{\n    "a": 1, // one\n    "z": {"b": {\n        "c": 2\n    }}\n}\n'
    )


def test_a_block_yaml_keeps_its_shape():
    text = "# top\na: 1 # one\nb:\n  # about c\n  c: no\n  d: 2\n# end\n"

    def changed(edit, *arguments):
        return edited(text, edit, *arguments, name="x.yaml")

    assert changed(remove, ("b", "c")) == text.replace("  c: no\n", "")
    assert changed(replace, ("b", "c"), "no") == text.replace("c: no", "c: 'no'")
    assert changed(insert, ("b", "e"), "auto") == text.replace("d: 2\n", "d: 2\n  e: auto\n")
    assert (
        changed(move, ("a",), ("b", "x", "a"))
        == "# top\nb:\n  # about c\n  c: no\n  d: 2\n  x:\n    a: 1 # one\n# end\n"
    )
    assert (
        changed(move, ("b",), ("z", "b")) == "# top\na: 1 # one\nz:\n  b:\n    # about c\n    c: no\n    d: 2\n# end\n"
    )


def test_a_block_moves_into_braces():
    text = "a:\n  'no': null # c\n  x: 5e8\nb: {}\n"
    assert edited(text, move, ("a",), ("b", "c"), name="x.yaml") == "b: {c: {'no': null, x: 5e8}}\n"


@pytest.mark.parametrize(
    ("text", "path"),
    [("a: &x {b: 1}\nc: *x\n", ("c", "b")), ("a: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n", ("c", "b"))],
)
def test_what_stands_elsewhere_in_a_yaml_is_not_edited(text, path):
    document = parse_document(("zero_optimization: {stage: 1}\n" + text).encode(), "x.yaml")
    assert document.root.at(path).value == 1
    for edits in (replace(document, path, 2), remove(document, path), rename(document, path, "z")):
        assert edits == ()


def test_a_path_that_is_not_there_gives_no_edits():
    document = parse_document(b'{"a": [1]}', "x.json")
    for path in (("b",), ("a", 1), ("a", "b"), ("b", "c"), ()):
        assert remove(document, path) == ()
    assert insert(document, ("b", "c"), 1) == ()
    assert move(document, ("b",), ("c",)) == ()
    assert move(document, ("a",), ("a", "c")) == ()


def test_overlapping_edits_are_refused():
    document = parse_document(b'{"a": {"b": 1}}', "x.json")
    with pytest.raises(ValueError, match="overlap"):
        apply(document.text, (*remove(document, ("a",)), *replace(document, ("a", "b"), 2)))


def test_hjson_without_quotes_and_braces():
    text = "zero_optimization: {\n  stage: 2\n  x: cpu\n}\nname: some text\n"
    assert edited(text, insert, ("zero_optimization", "y"), 1) == text.replace("x: cpu\n", 'x: cpu\n  "y": 1\n')
    assert edited(text, insert, ("y",), 1) == text.replace("some text\n", 'some text\n"y": 1\n')
    assert edited(text, remove, ("name",)) == text.replace("name: some text\n", "")
