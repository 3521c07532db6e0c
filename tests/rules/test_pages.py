"""Every rule's page is complete, and its two examples do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zeroconf import rules
from zeroconf.document.read import parse_document
from zeroconf.lint.check import Checked
from zeroconf.lint.fix import Fixed, can_fix, fix_document
from zeroconf.lint.pages import lint_example
from zeroconf.rules import RULES
from zeroconf.rules.page import read_page
from zeroconf.rules.registry import Rule

SOURCE = re.compile(r"\.py\b|#\d+|https://|\bRFC \d+|\bYAML 1\.[12]|\bHJSON\b")
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=[rule.code for rule in RULES.values()])


def codes(example):
    """The codes that linting an example draws."""
    return {finding.rule.code for finding in lint_example(example).findings}


@every_rule
def test_the_example_draws_the_finding_and_the_cure_does_not(rule):
    page = read_page(rule)
    assert rule.code in codes(page.example)
    assert rule.code not in codes(page.instead)


@every_rule
def test_the_examples_fix_cures_it_and_twice_is_once(rule):
    example = read_page(rule).example

    def check(document):
        linted = lint_example(example._replace(text=document.text))
        return Checked(linted, 0, linted.findings)

    def fixed(text):
        document = parse_document(text.encode(), example.file_name)
        return fix_document(Fixed(document, check(document)), check, unsafe=True).document.text

    once = fixed(example.text)
    assert fixed(once) == once
    remaining = check(parse_document(once.encode(), example.file_name)).every
    assert not [one for one in remaining if one.rule == rule and can_fix(one, unsafe=True)]


@every_rule
def test_the_page_is_complete(rule):
    page = read_page(rule)
    assert re.fullmatch(r"ZC\d{3}", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.name)
    assert page.summary.endswith(".")
    assert SOURCE.search(page.why), "name the source: a module (engine.py), a public issue (DeepSpeed#1809), a standard"


def test_codes_and_names_are_unique():
    assert len({rule.name for rule in RULES.values()}) == len(RULES)


def made(page):
    def check(_config):
        yield from ()

    check.__doc__ = page
    return Rule("ZC999", "made-for-this", "error", "high", ("config",), check)


PAGE = """It is wrong.

    Because (engine.py).

    Example:
        ```json {facts}
        {{}}
        ```

    Use instead:
        ```yaml
        a:
          b: 1
        ```
    """


def test_facts_stand_in_the_info_string():
    page = read_page(made(PAGE.format(facts="for=trainer deepspeed=0.18.9 accelerate=1.2.0")))
    assert (page.summary, page.why) == ("It is wrong.", "Because (engine.py).")
    assert (page.example.reader.name, page.example.reader.stated) == ("trainer", True)
    assert page.example.releases == ((0, 18, 9), (1, 2, 0), True)
    assert page.instead.text == "a:\n  b: 1\n"
    assert page.instead.reader.name is None
    assert not page.instead.releases.stated


@pytest.mark.parametrize(
    "text",
    [
        "It is wrong.",
        PAGE.format(facts="for=nobody"),
        PAGE.format(facts="deepspeed=new"),
        PAGE.format(facts="").replace("```json", "```toml"),
        PAGE.format(facts="").replace("Use instead:", "Instead:"),
        PAGE.format(facts="").replace("    Because (engine.py).\n", ""),
    ],
)
def test_a_page_written_otherwise_is_refused(text):
    with pytest.raises(ValueError, match="ZC999"):
        read_page(made(text))


def test_every_rule_in_the_package_is_registered():
    written = {
        code
        for path in (Path(rules.__file__).parent).rglob("*.py")
        for code in re.findall(r'^@rule\(\s*"(ZC\d{3})"', path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert written == set(RULES), "a module is missing in the list of its package's __init__.py"
