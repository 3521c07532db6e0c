"""The rules, one module per subject; importing this package registers them all."""

from __future__ import annotations

from zeroconf.rules import (  # noqa: F401  (imported for the rules that they register)
    accelerate,
    accelerate_keys,
    accelerate_launch,
    accelerate_machines,
    accelerate_types,
    accelerate_zero,
    autos,
    effects,
    hostfile,
    hosts,
    keys,
    kinds,
    lifetimes,
    releases,
    releases_needed,
    scalars,
    suppressions,
    text,
    values,
)
from zeroconf.rules.registry import RULES

__all__ = ["RULES"]
