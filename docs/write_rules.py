"""Writes the rule pages in docs/rules/ and the table in docs/lint.md from the rules: ``python docs/write_rules.py``.

A test fails when they are stale.
"""

from __future__ import annotations

from pathlib import Path

from zeroconf.lint.pages import Described, describe_all
from zeroconf.render.rule_page import rule_markdown

ROOT = Path(__file__).parent.parent
FAMILIES = {
    "ZC0": "the text: syntax, duplicate keys, quoted numbers, YAML 1.1 traps, hostfile entries, ignores",
    "ZC1": "keys: unknown, misplaced, removed, deprecated or dead; types and ranges, by release",
    "ZC2": "values that contradict each other, or have no effect where they stand",
    "ZC3": "hardware: GPU memory, host memory, NVMe, precision, world size",
    "ZC4": "network and speed",
    "ZC5": "across files: configuration, Accelerate YAML, hostfile, launch line",
    "ZC6": "releases known to be bad",
}
BEGIN, END = "<!-- rules -->\n", "<!-- /rules -->\n"
LEGEND = """An *error* fails, or is silently something else than the file says; a *warning* works, but is almost surely
not wanted; an *info* has no effect or is worth knowing. The severity is the usual one: the reader (`--for`) or the
release (`--deepspeed-version`) can make it another, as the finding then says. *fix*: what `--fix` does with the
page's example; an unsafe fix needs `--unsafe-fixes`.

"""
WRITTEN = "<!-- written by docs/write_rules.py -->\n\n"


def page_name(family: str) -> str:
    """The file of a family's page."""
    return f"{family.lower()}xx.md"


def link(described: Described, folder: str = "") -> str:
    """A link to a rule's part of its family's page."""
    rule = described.rule
    return f"[{rule.code}]({folder}{page_name(rule.code[:3])}#{rule.code.lower()}-{rule.name})"


def table(header: str, rows: list[str]) -> str:
    """A Markdown table; cells are divided by ``|`` already."""
    columns = header.count("|") + 1
    return "\n".join([f"| {header} |", "|" + "---|" * columns, *(f"| {row} |" for row in rows)]) + "\n"


def texts() -> dict[Path, str]:
    """Every file that is written, whole."""
    rules = describe_all()
    families = {family: [one for one in rules if one.rule.code.startswith(family)] for family in FAMILIES}
    families = {family: members for family, members in families.items() if members}
    folder = ROOT / "docs/rules"
    written = {}
    for family, members in families.items():
        pages = "\n".join(rule_markdown(one) for one in members)
        written[folder / page_name(family)] = f"# {family}xx: {FAMILIES[family]}\n\n{WRITTEN}{pages}"
    rows = [
        f"{link(one)} | {one.rule.name} | {one.rule.severity} | {one.fix or ''} | {one.page.summary.replace('|', '/')}"
        for one in rules
    ]
    everything = table("code | name | severity | fix | what is wrong", rows)
    written[folder / "README.md"] = f"# The rules\n\n{WRITTEN}{LEGEND}{everything}"
    rows = [
        f"[{family}xx](rules/{page_name(family)}) | {FAMILIES[family]} | {len(members)}"
        for family, members in families.items()
    ]
    page = ROOT / "docs/lint.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    written[page] = f"{before}{BEGIN}{table('family | about | rules', rows)}{END}{after}"
    return written


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
