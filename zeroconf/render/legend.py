"""What the tables' words and the range of seconds mean, said once and where they occur."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.rates import RATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroconf.types import Facts, Plan

# of published runs, about how many lie between the low and the high prediction (docs/accuracy.md)
IN_RANGE: Final = "9 of 10"
ADAPTERS_IN_RANGE: Final = "7 of 10"
PACKED_IN_RANGE: Final = "6 of 10"


def stage_words(plan: Plan) -> str:
    """``3 + hpZ 8``."""
    size = plan.zero_hpz_partition_size
    return f"{plan.stage} + hpZ {size}" if size > 1 else str(plan.stage)


def recompute_words(*, recomputed: bool) -> str:
    """Whether activations are kept for backward, or computed again there."""
    return f"activations {'recomputed' if recomputed else 'kept'}"


def plans_legend(plans: Sequence[Plan]) -> str:
    """The words of a table of plans."""
    words = [
        "micro x steps: sequences per GPU and micro step x micro steps per optimizer step (gradient accumulation)",
        "recompute: activation checkpointing",
        "s/sample: seconds of the whole cluster per sequence",
    ]
    if any(plan.zero_hpz_partition_size > 1 for plan in plans):
        words.append("hpZ: weights partitioned once more inside groups of so many GPUs (zero_hpz_partition_size)")
    return "; ".join(words)


def range_words(facts: Facts) -> str:
    """How much a range of seconds is to be trusted."""
    rates = facts.rates
    if (rates.compute_error, rates.host_error) != (RATES.compute_error, RATES.host_error):
        return "as wide as the measured steps lay apart, at least 5% either way"
    if facts.workload.quantize is not None:
        return f"{PACKED_IN_RANGE} published runs with adapters over 4 bits lie in such a range"
    if facts.workload.trainable_parameters is not None:
        return f"{ADAPTERS_IN_RANGE} published runs with adapters lie in such a range"
    return f"{IN_RANGE} published runs lie in such a range"
