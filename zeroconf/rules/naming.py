"""What a word stands for: a rule by its code or name, several by the start of their codes, or none."""

from __future__ import annotations

import re

from zeroconf.rules.registry import RULES

_PREFIX = re.compile(r"ZC\d{0,3}", re.ASCII)
_CODE = re.compile(r"ZC\d+", re.ASCII)
_FAMILY = slice(3)  # ZC2 of ZC240


def named_rule(written: str) -> str | None:
    """The code of the rule with this code or name, in any case; None when there is none."""
    if written.upper() in RULES:
        return written.upper()
    return next((rule.code for rule in RULES.values() if rule.name == written.lower()), None)


def rules_begun(written: str) -> frozenset[str]:
    """The codes that begin like this, or all for ``ALL``; empty when there is none."""
    prefix = written.upper()
    if prefix == "ALL":
        return frozenset(RULES)
    return frozenset(code for code in RULES if code.startswith(prefix)) if _PREFIX.fullmatch(prefix) else frozenset()


def unknown_rule(written: str) -> str:
    """The message for a word that stands for no rule. A code looks like every other, so it has no nearest."""
    from zeroconf.inputs.text import did_you_mean, shown  # noqa: PLC0415  (only mistakes need it)

    told = f"there is no rule '{shown(written)}'"
    if not _CODE.fullmatch(written.upper()):
        return f"{told}{did_you_mean(written, [rule.name for rule in RULES.values()])}; 'zeroconf rule' lists them"
    family = written.upper()[_FAMILY]
    families = sorted({code[_FAMILY] for code in RULES})
    if family in families:
        return f"{told}; 'zeroconf rule {family}' lists its family"
    return f"{told}; the families are {', '.join(families)}"
