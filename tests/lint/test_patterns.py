"""Patterns of per-file-ignores: what they match, and which can match nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from zeroconf.lint.patterns import read_pattern

FOLDER = Path("/p/q")


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("*.json", ["a.json", "sub/a.json"], ["a.yaml"]),
        ("sub/*.json", ["sub/b.json"], ["sub/a/b.json", "b.json", "x/sub/b.json"]),
        ("./sub/*.json", ["sub/b.json"], ["x/sub/b.json"]),
        ("./a.json", ["a.json"], ["sub/a.json"]),
        ("/p/q/a.json", ["a.json"], ["sub/a.json"]),
        ("sub", ["sub/a.json", "x/sub/y/a.json"], ["subway/a.json", "sub.json"]),
        ("sub/", ["sub/a.json"], ["subway/a.json"]),
        ("x/sub", ["x/sub/a.json", "x/sub/y/a.json"], ["sub/a.json"]),
        ("**/a.json", ["a.json", "x/a.json", "x/y/a.json"], ["ba.json"]),
        ("x/**/a.json", ["x/a.json", "x/y/a.json", "x/y/z/a.json"], ["a.json"]),
        ("x/**", ["x/a.json", "x/y/a.json"], ["a.json"]),
        ("**", ["a.json", "x/a.json"], []),
        ("ds_?.json", ["ds_1.json"], ["ds_12.json"]),
        ("ds_[12].json", ["ds_2.json"], ["ds_3.json"]),
        ("ds_[!12].json", ["ds_3.json"], ["ds_2.json"]),
        ("a+b(1).json", ["a+b(1).json"], ["aab1.json"]),
    ],
)
def test_what_a_pattern_matches(pattern, matched, others):
    read = read_pattern(pattern, FOLDER)
    assert not read.flaw
    assert [path for path in (*matched, *others) if read.matches(path)] == matched


@pytest.mark.parametrize("pattern", ["/elsewhere/*.json", "../*.json", "x/../../a.json", "{a,b}.json"])
def test_what_can_match_nothing_says_why(pattern):
    read = read_pattern(pattern, FOLDER)
    assert read.flaw
    assert not read.matches("a.json")
