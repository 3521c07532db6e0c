"""The command that lists the rules and prints their pages."""

from __future__ import annotations

import json

import pytest


def test_rules_are_listed(zeroconf):
    code, out, _ = zeroconf("rule")
    assert code == 0
    assert "ZC240  offload-param-below-stage-3" in out
    listed = json.loads(zeroconf("rule", "--json")[1])
    assert [one["code"] for one in listed] == sorted(one["code"] for one in listed)


@pytest.mark.parametrize("word", ["ZC240", "offload-param-below-stage-3"])
def test_a_rules_page(zeroconf, word):
    code, out, _ = zeroconf("rule", word)
    assert code == 0
    assert out.startswith("ZC240 offload-param-below-stage-3\n")
    assert "```" not in out
    one = json.loads(zeroconf("rule", word, "--json")[1])
    assert one["summary"] in out
    assert one["example"] in out


def test_a_prefix_lists_its_rules(zeroconf):
    code, out, _ = zeroconf("rule", "zc03")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["code", "ZC030", "ZC031", "ZC032"]
    assert [one["code"] for one in json.loads(zeroconf("rule", "ZC03", "--json")[1])] == ["ZC030", "ZC031", "ZC032"]
    assert zeroconf("rule", "ALL") == zeroconf("rule")


@pytest.mark.parametrize("word", ["ZC9", "ZC999"])
def test_a_family_that_is_not_there(zeroconf, word):
    code, out, err = zeroconf("rule", word)
    assert (code, out, err) == (2, "", f"error: there is no rule '{word}'; the families are ZC0, ZC2\n")


def test_a_code_of_a_family_that_is_there(zeroconf):
    assert zeroconf("rule", "ZC0999")[2] == "error: there is no rule 'ZC0999'; 'zeroconf rule ZC0' lists its family\n"


def test_no_such_rule(zeroconf):
    code, out, err = zeroconf("rule", "ofload-param-below-stage-3")
    assert (code, out) == (2, "")
    assert "nearest: offload-param-below-stage-3" in err
