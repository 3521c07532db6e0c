"""ZC4xx: network and speed: the stage, its groups, buckets and micro steps against the link, and needless offload."""

from __future__ import annotations

from zeroconf.rules.network import (  # noqa: F401  (imported for the rules that they register)
    choice,
    offload,
    quantized,
    stage,
    steps,
)
