"""Text that was meant as a number, a boolean or a null, and where only a boolean will do."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeroconf.keys import Block, Key

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
    # pydantic strips the spaces around a number only
    if ("boolean" in takes and text.lower() in TRUE | FALSE) or ("null" in takes and word in NULL):
        return True
    return bool(takes & NUMERIC and NUMBER.fullmatch(word)) and math.isfinite(float(word.replace("_", "")))


def is_combined(block: Block, key: Key) -> bool:
    """Whether the parser combines the value with another by "|", which takes integers (runtime/config.py)."""
    return (block.path, key.name) in {("", "wall_clock_breakdown"), ("flops_profiler", "enabled")}


def is_checked(block: Block, key: Key) -> bool:
    """Whether the parser itself stops on what is no boolean, outside of the pydantic blocks."""
    return is_combined(block, key) or (block.path, key.name) == ("checkpoint.parallel_write", "pipeline_stage")
