"""The rules as their readers see them: page and fix, the latter as the page's own example shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from zeroconf.document.read import parse_document
from zeroconf.errors import InputError
from zeroconf.lint.document import Linted, lint_document
from zeroconf.lint.known import Known
from zeroconf.lint.siblings import among
from zeroconf.rules import RULES
from zeroconf.rules.naming import named_rule, rules_begun, unknown_rule
from zeroconf.rules.page import Example, Page, read_page

if TYPE_CHECKING:
    from zeroconf.rules.registry import Rule


class Described(NamedTuple):
    """A rule with its page; ``fix`` is what ``--fix`` does to the example: nothing, a safe fix, or an unsafe one."""

    rule: Rule
    page: Page
    fix: Literal["safe", "unsafe"] | None


def lint_example(example: Example) -> Linted:
    """What a page's example draws, under the facts that it gives."""
    document = parse_document(example.text.encode(), example.file_name)
    known = Known(example.settings, example.releases) if example.settings else None
    return lint_document(
        document,
        reader=example.reader,
        releases=example.releases,
        known=known,
        siblings=among(example.beside),
    )


def describe(rule: Rule) -> Described:
    """The rule with its page and fix."""
    page = read_page(rule)
    drawn = (one for one in lint_example(page.example).findings if one.rule == rule)
    fix = next((one.fix for one in drawn if one.fix and one.fix.edits), None)
    return Described(rule, page, None if fix is None else "safe" if fix.safe else "unsafe")


def describe_all() -> list[Described]:
    """Every rule, by code."""
    return [describe(RULES[code]) for code in sorted(RULES)]


def find_rules(written: str) -> Described | list[Described]:
    """The rule with this code or name; the rules, by code, whose codes begin so.

    Raises:
        InputError: there is none; the message names the nearest.
    """
    code = named_rule(written)
    if code:
        return describe(RULES[code])
    begun = rules_begun(written)
    if not begun:
        raise InputError(unknown_rule(written))
    return [describe(RULES[one]) for one in sorted(begun)]
