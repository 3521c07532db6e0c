"""HJSON, YAML and hostfiles against the libraries that read them."""

from __future__ import annotations

import ast
import collections
import importlib.util
import logging
import re
from functools import lru_cache
from pathlib import Path

import hjson
import pytest
import yaml
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from zeroconf.document.hjson import read_hjson
from zeroconf.document.hostfile import read_hostfile
from zeroconf.document.json import read_json
from zeroconf.document.read import parse_document
from zeroconf.document.trouble import SyntaxTrouble
from zeroconf.document.yaml import read_yaml

SIGNS = [*"{}[],:\"'\n \t#/*-.0123e+\\abc", "true", "false", "null", "//", "/*", "*/", "'''", "\r\n", '"a":', '"b": ']
HJSON = st.lists(
    st.sampled_from(
        [
            *SIGNS,
            "b: ",
            "x y",
            "True,",
            "1e3",
            "-0",
            "\\u00e9",
            "\\'",
            "\\n",
            ",\n",
            "\n  ",
            "é",
            "0.5",
            "\x1c",
            "\xa0",
            "\x0b",
        ]
    ),
    max_size=25,
).map("".join)
YAML = st.lists(
    st.sampled_from([
        *'{}[],:"\'\n #*&-.0123e+|>?@=~', "true", "no", "null", "a: ", "b: ", "- ", "\n- ", "\n  ", "\n  c: ", "\nd: ",
        "<<: ", "&x ", "*x", "1:30", "2024-01-01", "5e8", "1.5e+3", "0x1f", "|\n  ", ">-\n ", "---\n", "...\n",
        " # c\n", "é", "\r\n", "\u2028", "? ", "{a: 1}", "[1, 2]",
    ]),
    max_size=20,
).map("".join)  # fmt: skip


def exact(value):
    """A value in which 1, 1.0 and True differ, but 1 and 1.0 do not: hjson makes integers of whole numbers."""
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    return (isinstance(value, bool), isinstance(value, str), value)


def hjson_loads(text):
    try:
        return hjson.loads(text, object_pairs_hook=dict)
    except (ValueError, IndexError):  # IndexError: its own slip on an open comment
        return None
    except OverflowError:  # 1e400, which a rule is about
        reject()


@settings(max_examples=150)
@given(HJSON | HJSON.map("{{{}}}".format) | HJSON.map("{{a: {}\n}}".format))
def test_hjson_is_read_as_the_package_reads_it(text):
    wanted = hjson_loads(text)
    try:
        root, marks = read_hjson(text)
    except SyntaxTrouble as trouble:
        # nothing but comments, and single values, are no configuration
        is_container = isinstance(wanted, (dict, list)) and text.lstrip().startswith(("{", "["))
        is_inside = 0 <= trouble.start <= trouble.end <= len(text)
        wrong = is_container or not is_inside
    else:
        wrong = not isinstance(wanted, (dict, list)) or exact(root.plain()) != exact(wanted)
        wrong = wrong or not all(0 <= mark.start <= mark.end <= len(text) for mark in marks)
    assert not wrong


@settings(max_examples=100)
@given(HJSON.map("{{{}}}".format))
def test_what_the_json_reader_takes_hjson_takes_too(text):
    try:
        root, _ = read_json(text)
    except SyntaxTrouble:
        return
    assert exact(root.plain()) == exact(hjson_loads(text))


@pytest.mark.parametrize(
    ("text", "wanted", "marks"),
    [
        (
            "{a: 1\n b: some text // all of it\n}",
            {"a": 1, "b": "some text // all of it"},
            "unquoted-key missing-comma unquoted-key unquoted-string",
        ),
        (
            "a: 1\nb: {c: 2}",
            {"a": 1, "b": {"c": 2}},
            "missing-braces unquoted-key missing-comma unquoted-key unquoted-key",
        ),
        ("{'a': 'x\\'y'}", {"a": "x'y"}, "single-quotes single-quotes"),
        ('{"a": True,\n"b": None\n}', {"a": "True,", "b": "None"}, "python-literal python-literal"),
        (
            "{\n  a: '''\n     one\n       two\n     '''\n}",
            {"a": "one\n  two"},
            "unquoted-key multiline-string",
        ),
        ('{"a": 5e8 # c\n}', {"a": 500000000}, "comment"),
        ("{a: \x1c\n}", {"a": ""}, "unquoted-key unquoted-string"),
        ("{a: true\xa0\n}", {"a": True}, "unquoted-key"),
    ],
)
def test_hjson_by_hand(text, wanted, marks):
    document = parse_document(text.encode(), "x.json")
    assert document.root is not None
    assert document.root.plain() == wanted == hjson_loads(text)
    assert [mark.what for mark in document.marks] == marks.split()


def loads_yaml(text):
    """What PyYAML makes of a text; an exception when it makes nothing, or its two loaders differ."""
    values = []
    for loader in (yaml.CSafeLoader, yaml.SafeLoader):
        try:
            values.append(yaml.load(text, loader))  # noqa: S506  (both are safe)
        except Exception as error:  # noqa: BLE001  (PyYAML's own slips: IndexError, ValueError)
            values.append(error)
    return values[0] if repr(values[0]) == repr(values[1]) else ValueError("they differ")


def has_text_keys(value):
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(has_text_keys, value.values()))
    return all(map(has_text_keys, value)) if isinstance(value, list) else True


@settings(max_examples=150)
@given(YAML | YAML.map("a: &x {{b: 1}}\n{}".format))
def test_yaml_is_read_as_safe_load_reads_it(text):
    wanted = loads_yaml(text)
    try:
        root, marks = read_yaml(text)
    except SyntaxTrouble as trouble:
        refused, is_inside = trouble.what, 0 <= trouble.start <= trouble.end <= len(text)
    else:
        refused, is_inside = "", True
    assert is_inside
    if refused:
        assert isinstance(wanted, Exception) or refused in {"empty", "too-deep"}
        return
    kinds = {mark.what for mark in marks}
    if isinstance(wanted, Exception):
        assert "second-document" in kinds or "they differ" in str(wanted)
    elif has_text_keys(wanted) and not ("<<" in text and (text.count("<<") > 1 or "duplicate" in kinds)):
        assert repr(root.plain()) == repr(wanted) or root.plain() == wanted
    for _, member, node in root.walk():
        assert 0 <= node.start <= node.end <= len(text)
        if (
            member
            and text[member.start : member.start + 1] not in {"", '"', "'", "!", "|", ">"}
            and "\n" not in text[member.start : member.end]
        ):
            assert text[member.start : member.end] == member.key


def test_yaml_places_comments_and_second_keys():
    text = "# top\nemoji: '😀'  # not 'a # b'\nz: &z\n  stage: 2\n  stage: 3\nw: *z\nv: {<<: *z, x: 'a # b'}\n"
    root, marks = read_yaml(text)
    assert root.plain() == yaml.safe_load(text)
    shown = [(mark.what, text[mark.start : mark.end]) for mark in marks]
    assert shown == [("duplicate", "stage"), ("comment", "# top"), ("comment", "# not 'a # b'")]
    assert marks[0].path == ("z", "stage")
    node = root.at(("w",))
    assert node is not None
    assert text[node.start : node.end] == "*z"
    block = root.at(("z",))
    assert block is not None
    assert text[block.start : block.end] == "stage: 2\n  stage: 3"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a:\n\tb: 1\n", "a tab"),
        ("a: b: c\n", "a second colon"),
        ("a: !foo 1\n", "a tag"),
        ("a: 2024-13-45\n", "cannot make a value"),
        ("a: *x\n", "no anchor"),
        ("a: &x [*x]\n", "stands inside"),
        ("a: \x01\n", "U+0001"),
        ("é: \x01\n", "U+0001"),
        ("[a]: 1\n", "as a key"),
        ("a: [1\n", "did not find expected"),
    ],
)
def test_a_yaml_slip_is_named(text, words):
    with pytest.raises(SyntaxTrouble, match=re.escape(words)) as caught:
        read_yaml(text)
    assert caught.value.start <= len(text)


def test_a_tower_of_aliases_ends():
    floors = "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 12))
    with pytest.raises(SyntaxTrouble, match="aliases stand for more than"):
        read_yaml("x0: &x0 1\n" + floors)


@pytest.mark.parametrize("opener", ["[", "{a: ", "- "])
def test_yaml_nesting_has_a_limit(opener):
    with pytest.raises(SyntaxTrouble, match=r"deep|depth"):
        read_yaml(opener * 5000)


@lru_cache
def deepspeed_parse_hostfile():
    """DeepSpeed's own function, without importing DeepSpeed."""
    package = importlib.util.find_spec("deepspeed")
    assert package
    assert package.origin
    tree = ast.parse((Path(package.origin).parent / "launcher" / "runner.py").read_text())
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "_parse_hostfile")
    names = {"re": re, "collections": collections, "logger": logging.getLogger("hostfile")}
    exec(compile(ast.Module([function], []), "runner.py", "exec"), names)  # noqa: S102  (the library under test)
    return names["_parse_hostfile"]


HOST_LINES = st.lists(
    st.sampled_from(
        ["node1", "node2", "ip1", " ", "  ", "\t", "slots=8", "slots=2", "slots=", "slot=8", "#", "8", ",", "x", "é"]
    ),
    max_size=5,
).map("".join)


@given(st.lists(HOST_LINES, max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_hostfiles_are_read_as_deepspeed_reads_them(lines, line_break):
    text = line_break.join(lines)
    try:
        wanted = deepspeed_parse_hostfile()(text.splitlines(keepends=True))
    except ValueError:
        wanted = None
    root, marks = read_hostfile(text)
    assert bool(marks) == (wanted is None)
    if wanted is not None:
        assert root.plain() == wanted
    for member in root.members:
        assert text[member.start : member.end] == member.key
        assert int(text[member.node.start : member.node.end]) == member.node.value
