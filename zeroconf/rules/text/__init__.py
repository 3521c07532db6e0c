"""ZC0xx: the text itself: syntax, second keys, quoted values, what the file ignores."""

from __future__ import annotations

from zeroconf.rules.text import (  # noqa: F401  (imported for the rules that they register)
    scalars,
    suppressions,
    syntax,
)
