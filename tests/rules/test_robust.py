"""Whatever a file holds, the linter answers: no exception, every place inside the text, every pointer resolves."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroconf.document.read import parse_document
from zeroconf.keys import Releases, key_table
from zeroconf.lint import lint_document
from zeroconf.rules import RULES
from zeroconf.rules.facts import Reader

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([-1, 0, 1, 2, 3, 4, 8, 10**9, 10**18, 10**400]),
    st.floats(),
    st.sampled_from(["auto", "cpu", "nvme", "none", "AdamW", "WarmupLR", "bf16", "true", "3", "5e8", "", "DEEPSPEED"]),
    st.text(max_size=8),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)
READERS = st.sampled_from(
    [Reader(), *(Reader(name, stated=True) for name in ("deepspeed", "trainer", "accelerate")), Reader("trainer")]  # type: ignore[arg-type]
)
RELEASES = st.sampled_from(
    [None, *(Releases((0, minor, 2), (1, 0, 0), stated=True) for minor in (9, 14, 16, 18, 19)), Releases((0,), (0,))]
)


@st.composite
def block(draw: st.DrawFn, library: Any, path: str = "") -> Any:
    """A block with some of its keys: with the block that a key holds, or with a value of any kind."""
    found = key_table(library).blocks.get(path)
    if found is None or draw(st.integers(0, 9)) == 0:
        return draw(VALUES)
    made = {}
    for name in draw(st.lists(st.sampled_from(sorted(found.keys)), max_size=5, unique=True)):
        inner = found.keys[name].block
        made[name] = draw(VALUES if inner is None or inner == path else block(library, inner))
    strange = st.sampled_from(_all_names(library)) | st.text(max_size=6)
    return made | draw(st.dictionaries(strange, VALUES, max_size=1))


def _all_names(library: Any) -> list[str]:
    return sorted({name for found in key_table(library).blocks.values() for name in found.keys})


def check(content: bytes, path: str, reader: Reader, releases: Releases | None) -> None:
    document = parse_document(content, path)
    for one in lint_document(document, reader=reader, releases=releases).findings:
        assert 0 <= one.start <= one.end <= len(document.text), one
        assert one.severity in {"error", "warning", "info"}
        assert one.message
        assert one.rule.code in RULES
        line, column = document.position(one.start)
        assert line >= 1
        assert column >= 1
        if one.path and document.root:
            # a missing key is reported at the nearest block that the file has
            nearest = next(length for length in range(len(one.path), -1, -1) if document.root.at(one.path[:length]))
            assert nearest >= len(one.path) - 2, one
        for edit in one.fix.edits if one.fix else ():
            assert 0 <= edit.start <= edit.end <= len(document.text), one


@pytest.mark.parametrize("library", ["deepspeed", "accelerate"])
def test_values_of_any_type_at_known_keys(library):
    @settings(max_examples=150, deadline=None)
    @given(block(library), READERS, RELEASES, st.booleans())
    def holds(config, reader, releases, in_yaml):
        if library == "accelerate":
            config = {"distributed_type": "DEEPSPEED", "compute_environment": "LOCAL_MACHINE"} | _mapping(config)
        else:
            config = {"zero_optimization": {"stage": 3}, "train_batch_size": 8} | _mapping(config)
        if in_yaml or library == "accelerate":
            check(yaml.safe_dump(config).encode(), "accelerate.yaml", reader, releases)
        else:
            check(json.dumps(config).encode(), "ds_config.json", reader, releases)

    holds()


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


@settings(max_examples=100, deadline=None)
@given(VALUES, READERS, RELEASES)
def test_values_of_any_type_anywhere(value, reader, releases):
    check(json.dumps(value).encode(), "ds_config.json", reader, releases)
    check(json.dumps({"zero_optimization": value, "train_batch_size": value}).encode(), "x.json", reader, releases)
    check(json.dumps({"deepspeed": {"zero_optimization": value}}).encode(), "x.yaml", reader, releases)
    check(yaml.safe_dump({"distributed_type": "DEEPSPEED", "deepspeed_config": value}).encode(), "x.yaml", reader, None)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), st.sampled_from(["a.json", "a.yaml", "hostfile"]))
def test_bytes_of_any_kind(content, path):
    check(content, path, Reader(), None)
    check(b'{"zero_optimization": {"stage": 3, ' + content, path, Reader("deepspeed", stated=True), None)
    check(b"distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: " + content, path, Reader(), None)
    check(b"node1 slots=8\n" + content, path, Reader(), None)


_FILE = """{
  "train_batch_size": 8,  // all
  "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}},
  "bf16": {"enabled": true},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "betas": [0.9, 0.95]}}
}
"""


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(_FILE)), st.integers(0, 6), st.text("{}[]\",:/#* \n\t0e.-autotrue'", max_size=4), READERS)
def test_a_file_with_any_small_damage(start, length, put, reader):
    check((_FILE[:start] + put + _FILE[start + length :]).encode(), "ds_config.json", reader, None)


@pytest.mark.parametrize("depth", [100, 5000])
@pytest.mark.parametrize("opening", ["[", '{"a":', "{"])
@pytest.mark.parametrize("path", ["deep.json", "deep.yaml"])
def test_deep_nesting(opening, path, depth):
    check((opening * depth).encode(), path, Reader(), None)
    check(('{"zero_optimization": ' + opening * depth).encode(), path, Reader(), None)
