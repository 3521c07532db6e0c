"""A rule's page as Markdown, which reads well in a terminal too, and the list of all rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from zeroconf.render.table import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroconf.lint.pages import Described
    from zeroconf.rules.page import Example, Page

_FIX_WORDS = {None: "no automatic fix", "safe": "fixed by --fix", "unsafe": "fixed by --unsafe-fixes"}


def page_markdown(page: Page) -> str:
    """What is wrong, why, and the two examples."""
    return "\n\n".join(
        [
            page.summary,
            page.why,
            f"Example{_facts(page.example)}:",
            _fence(page.example),
            f"Use instead{_facts(page.instead)}:",
            _fence(page.instead),
        ]
    )


def rule_markdown(described: Described) -> str:
    """The whole page, with its title."""
    rule = described.rule
    kind = f"{rule.severity}, confidence {rule.confidence}, {_FIX_WORDS[described.fix]}"
    return f"## {rule.code} {rule.name}\n\n*{kind}*\n\n{page_markdown(described.page)}\n"


def rules_table(rules: Sequence[Described]) -> str:
    """One line for each rule."""
    rows = [(one.rule.code, one.rule.name, one.rule.severity, one.fix or "-", one.page.summary) for one in rules]
    return "\n".join(table(("code", "name", "severity", "fix", "what is wrong"), rows))


def rule_json(described: Described) -> dict[str, Any]:
    """A rule as ``zeroconf rule --json`` gives it."""
    rule, page, fix = described
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "confidence": rule.confidence,
        "fix": fix,
        "needs": list(rule.needs),
        "summary": page.summary,
        "why": page.why,
        "example": page.example.text,
        "use_instead": page.instead.text,
    }


def plain(markdown: str) -> str:
    """Markdown without the marks that say nothing in a terminal."""
    return re.sub(r"^(## |\*(?=\S.*\*$))|(?<=\S)\*$|^```.*\n", "", markdown, flags=re.MULTILINE)


def _facts(example: Example) -> str:
    return f" ({example.facts})" if example.facts else ""


def _fence(example: Example) -> str:
    syntax = "text" if example.syntax == "hostfile" else example.syntax
    return f"```{syntax}\n{example.text}```"
