"""ZC3xx: the cluster and the model: memory of GPU, host and NVMe, precision, and the number of GPUs."""

from __future__ import annotations

from zeroconf.rules.hardware import (  # noqa: F401  (imported for the rules that they register)
    memory,
    numbers,
    offload,
    precision,
    sizes,
    world,
)
