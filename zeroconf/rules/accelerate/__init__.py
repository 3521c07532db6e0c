"""Accelerate YAML: its keys (ZC131 and on) and its values (ZC270 and on)."""

from __future__ import annotations

from zeroconf.rules.accelerate import (  # noqa: F401  (imported for the rules that they register)
    keys,
    launch,
    machines,
    settings,
    types,
    zero,
)
