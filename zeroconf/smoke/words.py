"""What a run says of itself in one line: while it goes on, and in the file that it has proven."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroconf.smoke.outcome import RENDEZVOUS
from zeroconf.units import GIB, MIB, counted, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroconf.smoke.measured import SmokeResult

_EARLY = {
    "start": "importing",
    "the script": "running the script up to DeepSpeed",
    RENDEZVOUS: "waiting for all ranks",
    "architecture": "reading the architecture",
    "config": "reading the configuration",
    "build": "building the model",
}


def verified_words(result: SmokeResult) -> str:
    """``dry run of DeepSpeed 0.19.8: the peak takes ...``, or what real steps measured."""
    release = f"DeepSpeed {result.environment.get('deepspeed', '')}".rstrip()
    if result.mode == "dry-run":
        return f"dry run of {release}: {result.explanation}"
    if not result.ranks:
        return f"{release}: {result.explanation}"
    rank = max(result.ranks, key=lambda one: one.peak_allocated_bytes)
    times = rank.step_seconds[1:] or rank.step_seconds
    pace = f", {seconds(sum(times) / len(times))} a step" if times and result.mode == "real" else ""
    losses = result.losses if result.mode == "real" else ()
    loss = f", loss {losses[0]:.3f} to {losses[-1]:.3f}" if len(losses) > 1 else ""
    started = counted(len(result.ranks), "rank")
    ranks = started if result.mode == "real" else f"rank 0 of {result.simulated_world_size}"
    ran = f"{counted(len(rank.step_seconds), 'optimizer step')} of {release} as {ranks} on {rank.device}"
    error = "" if result.relative_error is None else f" (estimate {result.relative_error:+.1%})"
    told = f"{ran}: peak {_size(rank.peak_allocated_bytes)}{error}{pace}{loss}"
    return f"{told}; {result.explanation}" if result.explanation else told


def progress_line(record: Mapping[str, Any], steps: int) -> str:
    """How far a rank is that goes on."""
    if record["step"]:
        losses: Sequence[float] = record.get("losses") or ()
        if losses and len(record["step_seconds"]) == record["step"]:
            return f"step {record['step']} of {steps} done, loss {losses[-1]:.3f}"
        return f"step {record['step']} of {steps}"
    return _EARLY.get(record["phase"], "initialising DeepSpeed")


def _size(num_bytes: int) -> str:
    return f"{num_bytes / GIB:.2f} GiB" if num_bytes >= GIB else f"{num_bytes / MIB:.2f} MiB"
