"""ZC2xx: values that contradict each other, fail when the engine starts, or have no effect where they stand."""

from __future__ import annotations

from zeroconf.rules.values import (  # noqa: F401  (imported for the rules that they register)
    batch,
    clipping,
    communication,
    extras,
    filled,
    gradients,
    offload,
    optimizer,
    optimizer_params,
    parallelism,
    precision,
    saving,
    scaling,
    scheduler,
    swapping,
    torch_optimizers,
    zenflow,
    zeropp,
)
