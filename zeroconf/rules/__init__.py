"""The rules, one module per subject; importing this package registers them all."""

from __future__ import annotations

from zeroconf.rules import suppressions, values  # noqa: F401  (imported for the rules that they register)
from zeroconf.rules.registry import RULES

__all__ = ["RULES"]
