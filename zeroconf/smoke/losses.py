"""What a run's losses say: they are finite and, on one repeated batch, must fall."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeroconf.smoke.measured import SmokeResult


def with_losses_judged(result: SmokeResult) -> SmokeResult:
    """The result; one whose loss is no number is no success, one whose loss did not fall says so."""
    losses = result.losses
    if result.outcome != "fits" or not losses:
        return result
    step = next((step for step, loss in enumerate(losses, 1) if not math.isfinite(loss)), 0)
    if step:
        ds_config = result.environment.get("ds_config")
        fp16 = ds_config.get("fp16") if isinstance(ds_config, dict) else None
        half = ", or use bf16 instead of fp16" if isinstance(fp16, dict) and fp16.get("enabled") else ""
        why = f"it fits in memory, but the loss is not finite from step {step} on"
        return replace(result, outcome="not-finite", explanation=why, cure=f"lower the learning rate{half}")
    # a user's program has other batches
    if len(losses) > 1 and losses[-1] >= losses[0] and "script" not in result.facts:
        why = "it ran, but the loss did not fall: with a warm-up raise --steps, else look at the learning rate"
        if result.mode == "simulated":
            why = "it ran; that the loss did not fall says nothing: one rank computes without the others"
        return replace(result, explanation=why)
    return result
