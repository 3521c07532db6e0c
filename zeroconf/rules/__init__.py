"""The rules, one package per family, one module per subject; importing this package registers them all."""

from __future__ import annotations

from zeroconf.rules import (  # noqa: F401  (imported for the rules that they register)
    accelerate,
    across,
    hardware,
    hostfile,
    keys,
    network,
    releases,
    text,
    values,
)
from zeroconf.rules.registry import RULES

__all__ = ["RULES"]
