"""Findings of the linter that a plan draws knowingly, with the reason: they stand as ignores in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeroconf.types import Facts


def answers(facts: Facts) -> dict[str, str]:
    """By rule, why its finding does not speak against the plan."""
    kind = facts.workload.optimizer
    if facts.workload.client_optimizer:
        owner = "the script's own optimizer was asked for (--client-optimizer)"
    elif kind in {"adam", "adamw"}:
        owner = "DeepSpeedCPUAdam is meant: it steps with the settings of the script's Adam"
    else:
        owner = f"{kind} was asked for, and Accelerate would put DeepSpeedCPUAdam in its place"
    return {
        "ZC217": "the memory was computed for sums in bf16; in fp32 they take 4 bytes per parameter of the shard",
        "ZC260": "the memory was computed with two blocks gathered at a time; the defaults would take more",
        "ZC242": f"{kind} was asked for (--optimizer)",
        "ZC243": owner,
        "ZC306": "fp16 was asked for (--precision), and the launch lines set DS_ALLOW_DEPRECATED_FP16=1",
        "ZC319": f"fp16 was asked for (--precision), though {facts.model.name} overflows in it",
    }
