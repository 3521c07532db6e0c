"""ZC5xx: files against each other: an Accelerate YAML, or a launch line, and the ds_config.json that it names."""

from __future__ import annotations

from zeroconf.rules.across import (  # noqa: F401  (imported for the rules that they register)
    accelerate,
    launch,
    trainer,
)
