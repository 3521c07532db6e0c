"""ZC2xx: values that contradict each other, fail when the engine starts, or have no effect where they stand."""

from __future__ import annotations

from zeroconf.rules.values import (
    batch,
    clipping,
    communication,
    extras,
    offload,
    optimizer,
    parallelism,
    precision,
    saving,
    scaling,
    scheduler,
    swapping,
    zenflow,
    zeropp,
)

__all__ = [
    "batch",
    "clipping",
    "communication",
    "extras",
    "offload",
    "optimizer",
    "parallelism",
    "precision",
    "saving",
    "scaling",
    "scheduler",
    "swapping",
    "zenflow",
    "zeropp",
]
