"""Text that was meant as a number, a boolean or a null."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeroconf.keys import Key

NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
NUMERIC = {"integer", "number"}
TRUE = {"true", "t", "yes", "y", "on", "1"}
FALSE = {"false", "f", "no", "n", "off", "0"}
NULL = {"null", "none", "~"}


def is_quoted(text: str, key: Key) -> bool:
    """Whether the text is a value in needless quotes, under a key that takes no text."""
    takes = set(key.type)
    if takes & {"string", "object"}:
        return False
    word = text.strip().lower()
    if ("boolean" in takes and word in TRUE | FALSE) or ("null" in takes and word in NULL):
        return True
    return bool(takes & NUMERIC and NUMBER.fullmatch(word)) and math.isfinite(float(word.replace("_", "")))
