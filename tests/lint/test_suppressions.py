"""What a file ignores by itself."""

from __future__ import annotations

import json

import pytest

from zeroconf.document.document import Document
from zeroconf.document.ignores import read_ignores
from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document

OFFLOAD = {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}


def linted(ignore, config=OFFLOAD):
    text = json.dumps({**config, "_zeroconf": {"ignore": ignore}})
    result = lint_document(parse_document(text.encode(), "a.json"))
    return [one.rule.code for one in result.findings], [
        (one.finding.rule.code, one.reason) for one in result.suppressed
    ]


@pytest.mark.parametrize("word", ["ZC240", "zc240", "offload-param-below-stage-3"])
def test_an_ignore_with_a_reason_counts(word):
    assert linted({word: " stage 3 comes "}) == ([], [("ZC240", "stage 3 comes")])


@pytest.mark.parametrize("reason", ["", "  ", None, 1, True, ["x"], {"x": "y"}])
def test_an_ignore_without_a_reason_does_not(reason):
    assert linted({"ZC240": reason}) == (["ZC240", "ZC030"], [])


@pytest.mark.parametrize("ignore", [["ZC240"], "ZC240"])
def test_a_list_has_no_reasons(ignore):
    assert linted(ignore) == (["ZC240", "ZC030"], [])


@pytest.mark.parametrize("ignore", [None, {}, []])
def test_nothing_ignored(ignore):
    assert linted(ignore) == (["ZC240"], [])


@pytest.mark.parametrize("word", ["ALL", "ZC2", "zc24"])
def test_a_word_for_several_rules_ignores_none_and_says_so(word):
    assert linted({word: "reason"})[0] == ["ZC240", "ZC031"]
    text = BLOCK.replace("param:", f"param:  # zeroconf: ignore[{word}] reason")
    result = lint_document(parse_document(text.encode(), "a.yaml"))
    told = [one.message for one in result.findings if one.rule.code == "ZC031"]
    assert told == [f"{word} stands for several rules: an ignore in a file names each by its code or name"]


FORM = 'write "_zeroconf": {"ignore": {"CODE": "the reason"}}'


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("ignore", f"nothing is ignored: {FORM}"),
        (1, f"nothing is ignored: {FORM}"),
        (None, f"nothing is ignored: {FORM}"),
        (["ZC240"], f"nothing is ignored: {FORM}"),
        ({"ignores": {"ZC240": "reason"}}, f"_zeroconf has no key ignores: {FORM}"),
        ({"ZC240": "reason"}, f"_zeroconf has no key ZC240: {FORM}"),
        ({"ignore": True}, f"nothing is ignored: {FORM}"),
        ({"ignore": 240}, f"nothing is ignored: {FORM}"),
        ({"ignore": "ZC240"}, "ZC240 is not ignored, since the ignore gives no reason: say why"),
    ],
)
def test_any_other_form_is_reported(written, told):
    text = json.dumps({**OFFLOAD, "_zeroconf": written})
    result = lint_document(parse_document(text.encode(), "a.json"))
    assert [(one.rule.code, one.message) for one in result.findings if one.rule.code != "ZC240"] == [("ZC030", told)]


@pytest.mark.parametrize("written", [{}, {"reasons": [{"key": "x"}]}, {"ignore": {}, "reasons": []}])
def test_what_generate_writes_is_no_ignore(written):
    text = json.dumps({"train_batch_size": 8, "_zeroconf": written})
    assert lint_document(parse_document(text.encode(), "a.json")).findings == ()


def told_in(text, name):
    return [
        one.message for one in lint_document(parse_document(text.encode(), name)).findings if one.rule.code == "ZC030"
    ]


def test_any_other_place_is_reported():
    ignore = {"ignore": {"ZC240": "reason"}}
    nested = json.dumps({"train_batch_size": 8, "zero_optimization": {"stage": 2, "_zeroconf": ignore}})
    assert told_in(nested, "a.json") == ["_zeroconf counts at the top level only, so nothing is ignored here"]
    in_yaml = BLOCK + "_zeroconf:\n  ignore:\n    ZC240: reason\n"
    assert told_in(in_yaml, "a.yaml") == [
        "in YAML nothing is ignored by _zeroconf: write # zeroconf: ignore[CODE] and the reason"
    ]
    comment = '{"train_batch_size": 8} // zeroconf: ignore[ZC240] reason'
    assert told_in(comment, "a.json") == [f"in JSON nothing is ignored by a comment: {FORM}"]


def test_unknown_and_unused_ignores_are_reported():
    assert linted({"ZC999": "reason"})[0] == ["ZC240", "ZC031"]
    assert linted({"ZC240": "reason"}, {"train_batch_size": 8}) == (["ZC032"], [])


def test_an_unused_ignore_can_be_ignored():
    assert linted({"ZC240": "reason", "ZC032": "both worlds"}, {"train_batch_size": 8}) == (
        [],
        [("ZC032", "both worlds")],
    )


def test_an_ignore_of_a_rule_that_could_not_be_checked_is_not_unused(make_rule):
    def check(cluster):
        yield from cluster

    make_rule(check)
    assert linted({"ZC901": "reason"}, {"train_batch_size": 8}) == ([], [])


@pytest.mark.parametrize(
    "content", ['{"_zeroconf": 1}', '{"_zeroconf": [1]}', '["_zeroconf"]', '"_zeroconf"', "_zeroconf"]
)
def test_any_other_content_is_no_ignore(content):
    assert read_ignores(parse_document(content.encode(), "a.json")) == []


YAML = """\
# zeroconf: ignore[ZC401] for the whole file
---
zero_optimization:  # zeroconf: ignore[ZC402, ZC403] for this line
  stage: 2
  # zeroconf: ignore[ZC404]

  # another comment
  offload_param: "text # zeroconf: ignore[ZC405] text"
  url: a#zeroconf: ignore[ZC406]
# zeroconf: ignore[ZC407] nothing follows
"""


def test_comments():
    document = Document("a.yaml", YAML, "yaml", "ds_config")
    found = {one.rule: (one.line, one.reason) for one in read_ignores(document)}
    del found["ZC405"]  # a string, which only the values show
    assert found == {
        "ZC401": (None, "for the whole file"),
        "ZC402": (3, "for this line"),
        "ZC403": (3, "for this line"),
        "ZC404": (8, ""),
        "ZC407": (10, "nothing follows"),
    }
    assert [YAML[one.start : one.end] for one in read_ignores(document)][:3] == ["ZC401", "ZC402", "ZC403"]


BLOCK = """\
train_micro_batch_size_per_gpu: 1
zero_optimization:
  stage: 2
  offload_param:
    device: cpu
"""


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ("param:", "param:  # zeroconf: ignore[ZC240] a reason", True),
        ("  offload", "  # zeroconf: ignore[ZC240] a reason\n  offload", True),
        ("train_", "# zeroconf: ignore[offload-param-below-stage-3] a reason\n\ntrain_", True),
        ("param:", "param:  # zeroconf: ignore[ZC240]", False),
        ("stage: 2", "stage: 2  # zeroconf: ignore[ZC240] a reason", False),
        ("stage: 2", "stage: 2\n  tag: 'x # zeroconf: ignore[ZC240] a reason'", False),
    ],
)
def test_a_comment_in_yaml(old, new, counts):
    text = BLOCK.replace(old, new, 1)
    result = lint_document(parse_document(text.encode(), "a.yaml"))
    assert ("ZC240" in {one.finding.rule.code for one in result.suppressed}) == counts
    assert ("ZC240" in {one.rule.code for one in result.findings}) != counts


@pytest.mark.parametrize("comment", ["ignore ZC240 soon", "ignore(ZC240) soon", "ignore[] soon", "ignore"])
def test_a_comment_that_names_no_rule_is_reported(comment):
    text = f"zero_optimization:\n  stage: 2\n  offload_param: {{device: cpu}}  # zeroconf: {comment}\n"
    result = lint_document(parse_document(text.encode(), "a.yaml"))
    assert sorted(one.rule.code for one in result.findings) == ["ZC030", "ZC240"]
