"""Nothing that can stand in a file makes the linter fail."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroconf.document.edits import apply
from zeroconf.document.read import parse_document, sniff
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

NAMES = st.sampled_from(["x.json", "x.yaml", "hostfile", "x", "-", ""])
CONFIG = {
    "train_batch_size": "8",
    "gradient_clipping": 1.0,
    "fp16": {"enabled": "auto", "loss_scale": 0},
    "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}, "sub_group_size": 1e9},
    "optimizer": {"type": "AdamW", "params": {"lr": 2e-5, "betas": [0.9, 0.999]}},
}
FILES = {
    "ds.json": json.dumps(CONFIG, indent=2),
    "hjson.json": "{\n  // one\n  train_batch_size: 8, 'a': True,\n  \"b\": [1 2], c: text é\n  /* two */\n}",
    "x.yaml": "deepspeed: &d\n  zero_optimization: {stage: 5e8, x: 'é'}\n  fp16:\n    enabled: no\n<<: *d\n",
    "acc.yaml": "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\nmixed_precision: no\n---\na: 1\n",
    "hostfile": "# c\nnode-1 slots=8\nnode-2 slot=8\nnode-1 slots=4\n",
}


def lint(content, name, reader=None):
    document = parse_document(content, name)
    sniff(content)
    length = len(document.text)
    assert all(0 <= mark.start <= mark.end <= length for mark in document.marks)
    for _, member, node in document.root.walk() if document.root else ():
        assert 0 <= node.start <= node.end <= length
        assert member is None or 0 <= member.start <= member.end <= length
    facts = {"reader": Reader(reader, stated=True)} if reader else {}
    for finding in lint_document(document, **facts).findings:
        assert 0 <= finding.start <= finding.end <= length
        assert document.position(finding.start) >= (1, 1)
        assert finding.message
        if finding.fix:
            apply(document.text, finding.fix.edits)


@pytest.mark.parametrize("text", ["'\\", '{"a": "\\', '"\\u', "'" * 3, "/*", "? |", "- !!int"])
def test_texts_that_end_early(text):
    for name in ("x.json", "x.yaml"):
        lint(text.encode(), name)


@given(st.binary(max_size=200), NAMES)
def test_any_bytes(content, name):
    lint(content, name)


@given(st.text(st.sampled_from("{}[]:,\"'\\ \n\t-#&*!|>slots=0é😀\ud83d\x00"), max_size=60), NAMES)
def test_any_signs(text, name):
    lint(text.encode("utf-8", errors="surrogatepass"), name)


@pytest.mark.parametrize("name", FILES)
def test_every_truncation(name):
    content = FILES[name].encode()
    for end in range(len(content)):
        lint(content[:end], name)


@given(st.sampled_from(sorted(FILES)), st.data(), st.sampled_from([None, "deepspeed", "trainer", "accelerate"]))
def test_changed_in_places(name, data, reader):
    text = FILES[name]
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 8)))
        text = (
            text[:start]
            + data.draw(st.sampled_from(["", "{", "]", '"', "\n", "  ", ": ", "1e400", "null", "'"]))
            + text[end:]
        )
    lint(text.encode(), name, reader)


VALUES = st.recursive(
    st.sampled_from(
        [None, True, "auto", "", "no", "1e400", -1, 0, 2**70, 10**400, float("inf"), float("nan"), "\ud800"]
    ),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["stage", "device", "enabled", "lr"]), inner)
    ),
    max_leaves=5,
)
BLOCKS = ["zero_optimization", "fp16", "optimizer", "params", "train_batch_size", "offload_param", "scheduler", "type"]


@given(
    st.dictionaries(st.sampled_from(BLOCKS), VALUES | st.dictionaries(st.sampled_from(BLOCKS), VALUES)), st.booleans()
)
def test_any_values_under_known_keys(value, as_yaml):
    text = json.dumps({"deepspeed": value} if as_yaml else value)
    lint(text.encode(), "x.yaml" if as_yaml else "x.json")
