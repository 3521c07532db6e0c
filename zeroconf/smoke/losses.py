"""What a run's losses say: they are finite and, on one repeated batch, must fall."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zeroconf.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroconf.smoke.measured import SmokeResult


def with_losses_judged(result: SmokeResult) -> SmokeResult:
    """The result; one whose loss is no number is no success, one whose loss did not fall says so."""
    losses = result.losses
    if result.outcome != "fits" or not losses:
        return result
    step = next((step for step, loss in enumerate(losses, 1) if not math.isfinite(loss)), 0)
    if step:
        ds_config = result.environment.get("ds_config")
        why = f"it fits in memory, but the loss is not finite from step {step} on"
        return replace(result, outcome="not-finite", explanation=why, cure=_cure(step, ds_config))
    # a user's program has other batches
    if len(losses) > 1 and losses[-1] >= losses[0] and "script" not in result.facts:
        why = "it ran, but the loss did not fall: with a warm-up raise --steps, else look at the learning rate"
        if result.mode == "simulated":
            why = "it ran; that the loss did not fall says nothing: one rank computes without the others"
        return replace(result, explanation=why)
    return result


def skipped_steps(records: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Why a program's weights were not updated, and what helps: gradients, or the loss, were not finite on a rank.

    ``records`` are the ranks' (worker/watch.py); DeepSpeed skips a step on all of them at once, if on one.
    """
    seen = [record["skipped"] for record in records if "skipped" in record]
    number = max(one["not_finite"] + one["searching"] for one in seen)
    first = min((one["first"] for one in seen if one["first"]), default=0)
    why = f"DeepSpeed skipped {counted(number, 'optimizer step')}, since gradients were not finite"
    if first:
        why += f"; the loss was first not finite at step {first}"
    updates = min(len(record.get("step_seconds", ())) for record in records)
    ds_config = next((record.get("environment", {}).get("ds_config") for record in records), None)
    return why, _cure(updates + 1, ds_config)


def _cure(step: int, ds_config: object) -> str:
    """What helps where a step is the first without a finite loss, or gradients; before step 1 there was no update."""
    fp16 = ds_config.get("fp16") if isinstance(ds_config, dict) else None
    half = ", or use bf16 instead of fp16" if isinstance(fp16, dict) and fp16.get("enabled") else ""
    if step > 1:
        return f"lower the learning rate{half}"
    return f"no update went before: look at the data, the loss and the weights that it starts with{half}"
