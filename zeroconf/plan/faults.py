"""What releases of DeepSpeed compute wrongly: the one place for what the linter warns of and the search avoids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.keys import release_text

if TYPE_CHECKING:
    from zeroconf.keys import Release
    from zeroconf.types import Facts, Plan


class Span(NamedTuple):
    """Releases from the first to the last one; ``since`` is empty where the first has no number here."""

    since: Release
    until: Release

    def __contains__(self, release: object) -> bool:
        return isinstance(release, tuple) and self.since <= release <= self.until

    def __str__(self) -> str:
        """``0.17.6 to 0.18.2``, or ``up to 0.18.2``."""
        last = release_text(self.until)
        return f"{release_text(self.since)} to {last}" if self.since else f"up to {last}"


# zero_hpz_partition_size: DeepSpeed#7606, fixed by DeepSpeed#7707 (ZC601)
HPZ_STALE: Final = Span((), (0, 18, 2))
# overlap_comm at stages 1 and 2: DeepSpeed#7188, DeepSpeed#7965 (ZC602)
OVERLAP_RACES: Final = Span((), (0, 18, 9))
# stage 2: DeepSpeed#7718, trl#4540 (ZC603)
STAGE_2_GRADIENTS_WRONG: Final = Span((0, 17, 6), (0, 18, 2))
# bf16.check_grad_overflow is read, and off unless said: DeepSpeed#8035 (ZC611)
BF16_OVERFLOW_UNCHECKED: Final = Span((0, 17, 1), (0, 19, 2))
# stage 1 in bf16 with fp32 accumulation: DeepSpeed#7665, DeepSpeed#7985 (ZC605)
LAST_MICRO_BATCH_LOST: Final = Span((0, 18, 3), (0, 18, 9))


def fault(facts: Facts, plan: Plan) -> str:
    """Why the plan is not to be chosen under the release of the facts; empty where nothing speaks against it.

    A stage that was asked for is obeyed.
    """
    release, pinned = facts.versions.deepspeed, facts.workload.zero_stage
    if plan.stage == 2 and pinned != 2 and release in STAGE_2_GRADIENTS_WRONG:
        return f"stage 2 computes wrong gradients in DeepSpeed {STAGE_2_GRADIENTS_WRONG} (ZC603)"
    if plan.zero_hpz_partition_size > 1 and release in HPZ_STALE:
        return f"zero_hpz_partition_size trains on stale weights in DeepSpeed {HPZ_STALE} (ZC601)"
    sums_in_bf16_optimizer = facts.workload.precision == "bf16" and plan.fp32_gradients and plan.offload == "none"
    if plan.stage == 1 and pinned != 1 and sums_in_bf16_optimizer and release in LAST_MICRO_BATCH_LOST:
        return (
            f"stage 1 with fp32 accumulation does not average the last micro batch in {LAST_MICRO_BATCH_LOST} (ZC605)"
        )
    return ""


def may_overlap(release: Release, stage: int) -> bool:
    """Whether overlap_comm has something to hide and is safe: stage 1 reduces where the step ends."""
    return stage == 3 or (stage == 2 and release not in OVERLAP_RACES)
