"""The command that asks for something else than what was asked: what was given, with changes."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def generate_command(given: Mapping[str, str | None], changes: Mapping[str, str | None]) -> str:
    """``zeroconf generate`` with the options that were given, each with its value or None, and those that change."""
    options = {**given, **changes}
    words = [word for option, value in options.items() for word in ((option,) if value is None else (option, value))]
    return shlex.join(["zeroconf", "generate", *words])
