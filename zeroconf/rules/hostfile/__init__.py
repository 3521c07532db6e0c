"""Hostfiles: their entries (ZC020 and on) and their hosts (ZC295 and on)."""

from __future__ import annotations

from zeroconf.rules.hostfile import (  # noqa: F401  (imported for the rules that they register)
    entries,
    hosts,
)
