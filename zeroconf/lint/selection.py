"""Which rules count: codes, prefixes and names; the more specific word wins, then the command line, then ignore."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zeroconf.errors import InputError
from zeroconf.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

_PREFIX = re.compile(r"ZC\d{0,3}")
_EXACT = 9  # longer than any prefix


def split(words: Iterable[str]) -> list[str]:
    """``["ZC1,ZC240", "unused-ignore"]`` as three words."""
    return [word.strip() for text in words for word in text.split(",") if word.strip()]


def codes_of(word: str) -> tuple[frozenset[str], int]:
    """The codes that a code, a prefix, a name or ``ALL`` stands for, and how specific it is.

    Raises:
        InputError: it stands for no rule.
    """
    code = word.upper()
    if code in RULES:
        return frozenset({code}), _EXACT
    named = frozenset(rule.code for rule in RULES.values() if rule.name == word.lower())
    if named:
        return named, _EXACT
    if code == "ALL":
        return frozenset(RULES), 0
    begun = frozenset(known for known in RULES if known.startswith(code)) if _PREFIX.fullmatch(code) else frozenset()
    if not begun:
        raise InputError(unknown_rule(word))
    return begun, len(code)


def unknown_rule(word: str) -> str:
    """The message for a word that stands for no rule."""
    from zeroconf.inputs.text import did_you_mean, shown  # noqa: PLC0415  (only mistakes need it)

    near = did_you_mean(word, [*RULES, *(rule.name for rule in RULES.values())])
    return f"there is no rule '{shown(word)}'{near}; 'zeroconf rule' lists them"


def enabled_codes(
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    project_select: Iterable[str] = (),
    project_ignore: Iterable[str] = (),
) -> frozenset[str]:
    """The codes that count. A ``select`` on the command line replaces the project's, an ``ignore`` adds to it.

    Raises:
        InputError: a word that stands for no rule.
    """
    selected = split(select)
    words = [(word, True, False) for word in selected] if selected else []
    words += [] if selected else [(word, False, False) for word in split(project_select)]
    words += [(word, True, True) for word in split(ignore)]
    words += [(word, False, True) for word in split(project_ignore)]
    if not words:
        return frozenset(RULES)
    anything_selected = any(not is_ignore for _, _, is_ignore in words)
    # the strongest word about a code decides: (how specific, from the command line, ignores)
    strongest = dict.fromkeys(RULES, (-1, False, anything_selected))
    for word, from_command_line, is_ignore in words:
        codes, specific = codes_of(word)
        for code in codes:
            strongest[code] = max(strongest[code], (specific, from_command_line, is_ignore))
    return frozenset(code for code, (_, _, is_ignored) in strongest.items() if not is_ignored)
