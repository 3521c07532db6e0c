"""The values of a smoke test: what each rank measured, and what that says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.types import Estimate

SmokeMode = Literal["real", "simulated", "dry-run"]
# "ran": a dry run without a card to compare its peak with; "unsupported": one that cannot run, before the estimate
# takes its place; "no-steps": a user's program that DeepSpeed had no step to do in; "not-finite": one that
# fits, but whose loss, or gradients, are NaN or infinite
Outcome = Literal[
    "fits",
    "ran",
    "does-not-fit",
    "oom",
    "host-oom",
    "hang",
    "crash",
    "rejected",
    "unsupported",
    "no-steps",
    "not-finite",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCollective:
    """One kind of collective in one step: elements and bytes are what one rank sends in all ``count`` calls."""

    collective: str
    dtype: str
    group_size: int
    elements: int
    bytes: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMeasurement:
    """What one rank measured. Peaks are bytes by phase; seconds and losses are per optimizer step.

    ``update_seconds`` are the part of ``step_seconds`` in which the weights are updated; ``parts``, where they are
    known, the bytes of each part at the peak of each phase; ``collectives`` what the rank sends in one optimizer step,
    in rings as NCCL does it. A rank that failed before its first step ended has None.
    """

    rank: int
    device: str
    phases: dict[str, int]
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    steady_bytes: int
    host_peak_bytes: int
    step_seconds: tuple[float, ...]
    update_seconds: tuple[float, ...]
    losses: tuple[float, ...]
    host_pinned_bytes: int | None = None
    collectives: tuple[SentCollective, ...] | None = None
    parts: dict[str, dict[str, int]] | None = None

    @property
    def bytes_sent(self) -> int | None:
        """Bytes of one optimizer step."""
        return None if self.collectives is None else sum(one.bytes for one in self.collectives)


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One configuration of several that were tried; ``title`` says what was changed."""

    title: str
    outcome: Outcome
    explanation: str
    peak_allocated_bytes: int
    activation_checkpointing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeResult:
    """The result of a smoke test. ``explanation`` and ``cure`` are set when it did not fit or run.

    ``facts`` are the architecture and workload that the numbers belong to. ``named_hardware`` is whether ``predicted``
    is for a cluster that was named; else only its memory means anything. ``tries`` are all, this one the last.
    """

    mode: SmokeMode
    outcome: Outcome
    ranks: tuple[RankMeasurement, ...]
    environment: dict[str, object]
    log_path: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    predicted: Estimate | None = None
    named_hardware: bool = False
    relative_error: float | None = None
    simulated_world_size: int | None = None
    substitutions: tuple[str, ...] = ()
    explanation: str = ""
    cure: str = ""
    tries: tuple[Try, ...] = ()

    @property
    def losses(self) -> tuple[float, ...]:
        """The loss of each optimizer step that all ranks did: the mean of theirs, which is what training lowers."""
        steps = zip(*(rank.losses for rank in self.ranks), strict=False)
        return tuple(sum(losses) / len(losses) for losses in steps)
