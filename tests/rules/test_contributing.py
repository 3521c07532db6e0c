"""The rule that CONTRIBUTING shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.rules import RULES
from zeroconf.rules.page import read_page

CONTRIBUTING = Path(__file__).parent.parent.parent / "CONTRIBUTING.md"
IMPORTS = "from __future__ import annotations\nfrom zeroconf.rules.registry import Problem, rule\n"


def test_the_shown_rule_works():
    shown = re.search(r"^```python\n(.*?)^```$", CONTRIBUTING.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[1]
    before = set(RULES)
    try:
        # under a code of its own: whoever tries the page may have added the rule already
        shown = shown.replace("ZC298", "ZC998").replace("log-line-every-step", "made-for-this-test")
        exec(compile(IMPORTS + shown, "CONTRIBUTING.md", "exec"), {})  # noqa: S102  (our own text)
        (code,) = set(RULES) - before
        page = read_page(RULES[code])
        found = [
            {one.rule.code for one in lint_document(parse_document(example.text.encode(), "a.json")).findings}
            for example in (page.example, page.instead)
        ]
        assert [code in codes for codes in found] == [True, False]
    finally:
        for code in set(RULES) - before:
            del RULES[code]
