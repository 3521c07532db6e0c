"""What the search avoids under the release of the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.faulty import HPZ_STALE, LAST_MICRO_BATCH_LOST, OVERLAP_RACES, STAGE_2_GRADIENTS_WRONG

if TYPE_CHECKING:
    from zeroconf.keys import Release
    from zeroconf.types import Facts, Plan


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
