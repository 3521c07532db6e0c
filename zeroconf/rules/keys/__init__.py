"""ZC1xx: keys of a DeepSpeed configuration: unknown, misplaced, old, dead, of the wrong kind."""

from __future__ import annotations

from zeroconf.rules.keys import (  # noqa: F401  (imported for the rules that they register)
    autos,
    effects,
    kinds,
    lifetimes,
    unknown,
    wrapped,
)
