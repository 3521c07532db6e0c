"""ZC6xx: releases that are known to go wrong, or too old, for what a file uses."""

from __future__ import annotations

from zeroconf.rules.releases import (  # noqa: F401  (imported for the rules that they register)
    known_bad,
    needed,
)
