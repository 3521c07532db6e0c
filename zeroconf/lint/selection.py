"""Which rules count: codes, prefixes and names; the more specific word wins, then the command line, then ignore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.errors import InputError
from zeroconf.rules import RULES
from zeroconf.rules.naming import named_rule, rules_begun, unknown_rule

if TYPE_CHECKING:
    from collections.abc import Iterable

_EXACT = 9  # longer than any prefix


def split(texts: Iterable[str]) -> list[str]:
    """``["ZC1,ZC240", "unused-ignore"]`` as three words.

    Raises:
        InputError: a text without any word.
    """
    words: list[str] = []
    for text in texts:
        own = [word.strip() for word in text.split(",") if word.strip()]
        if not own:
            msg = f"'{text}' names no rule; give codes, prefixes like ZC1, or names"
            raise InputError(msg)
        words += own
    return words


def codes_of(word: str) -> tuple[frozenset[str], int]:
    """The codes that a code, a prefix, a name or ``ALL`` stands for, and how specific it is.

    Raises:
        InputError: it stands for no rule.
    """
    code = named_rule(word)
    if code:
        return frozenset({code}), _EXACT
    begun = rules_begun(word)
    if not begun:
        raise InputError(unknown_rule(word))
    return begun, 0 if word.upper() == "ALL" else len(word)


def enabled_codes(
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    project_select: Iterable[str] = (),
    project_ignore: Iterable[str] = (),
) -> frozenset[str]:
    """The codes that count. A ``select`` on the command line replaces the project's, an ``ignore`` adds to it.

    Raises:
        InputError: a word that stands for no rule, or none at all.
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
