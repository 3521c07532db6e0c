"""Which rules count."""

from __future__ import annotations

import pytest

from zeroconf.errors import InputError
from zeroconf.lint.selection import codes_of, enabled_codes
from zeroconf.rules import RULES

SUPPRESSIONS = frozenset(code for code in RULES if code.startswith("ZC03"))


def test_everything_counts_unless_said_otherwise():
    assert enabled_codes() == frozenset(RULES)


@pytest.mark.parametrize("word", ["ZC240", "zc240", "offload-param-below-stage-3", "Offload-Param-Below-Stage-3"])
def test_a_code_or_a_name(word):
    assert enabled_codes(select=[word]) == {"ZC240"}
    assert enabled_codes(ignore=[word]) == frozenset(RULES) - {"ZC240"}


def test_prefixes_and_lists():
    assert enabled_codes(select=["ZC03"]) == SUPPRESSIONS
    assert enabled_codes(select=["ZC03, ZC240"]) == enabled_codes(select=["ZC03", "ZC240"]) == SUPPRESSIONS | {"ZC240"}
    assert enabled_codes(ignore=["ALL"]) == frozenset()


def test_the_more_specific_word_wins():
    assert enabled_codes(select=["ZC032"], ignore=["ZC0"]) == {"ZC032"}
    assert enabled_codes(select=["ZC03"], ignore=["unused-ignore"]) == SUPPRESSIONS - {"ZC032"}
    assert "ZC240" not in enabled_codes(select=["ZC240"], ignore=["ZC240"])


def test_the_command_line_wins_over_the_project():
    assert enabled_codes(select=["ZC240"], project_select=["ZC03"]) == {"ZC240"}
    assert enabled_codes(select=["ZC240"], project_ignore=["ZC240"]) == {"ZC240"}
    assert enabled_codes(ignore=["ZC031"], project_ignore=["ZC240"]) == frozenset(RULES) - {"ZC031", "ZC240"}
    assert enabled_codes(project_select=["ZC03"]) == SUPPRESSIONS


@pytest.mark.parametrize("word", ["ZC999", "ZC24000", "X", "unused", "ZC 240", "\x1b[31m"])
def test_a_word_for_no_rule_is_refused(word):
    with pytest.raises(InputError, match="there is no rule"):
        codes_of(word)


def test_the_nearest_rule_is_named():
    with pytest.raises(InputError, match=r"nearest: .*unused-ignore"):
        codes_of("unused-ignores")
