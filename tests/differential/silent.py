"""Errors on files that the judge accepts, each with its reason; and which codes name a library's error."""

from __future__ import annotations

import re
from typing import NamedTuple

# the key reaches nobody: proven for each file by reading it without the key
UNREAD: dict[str, str] = {
    "ZC101": "an unknown key whose value is auto is dropped before DeepSpeed's check",
    "ZC102": "a mistyped key where DeepSpeed asks only for the keys that it knows",
    "ZC103": "a key at a level where DeepSpeed does not look for it",
    "ZC105": "a key of older releases that nothing reads any more",
    "ZC107": "a bfloat16 block, which the Trainer and Accelerate never look at",
    "ZC108": "a second name beside the one that is read",
    "ZC121": "an auto that DeepSpeed drops, so that its default applies",
    "ZC132": "a key in deepspeed_config that Accelerate does not know",
    "ZC277": "the block of another distributed type",
}


class Excuse(NamedTuple):
    """An error that the judge cannot see for a reason: at these places, something else happens than the file says."""

    code: str
    pointer: str
    reason: str


_NOT_IN_A_TOY = r"/(aio|autotuning|expert_parallel|data_efficiency|pipeline|activation_checkpointing)(/|$)"
EXCUSES = (
    # nothing reports it, and something else happens than the file says
    Excuse("ZC136", "", "a truth word other than true leaves zero3_save_16bit_model off"),
    Excuse("ZC240", "", "offload_param below stage 3: parsed, and the parameters stay on the GPU"),
    Excuse("ZC271", "", "the path for NVMe is lost: swapped into a folder named none"),
    Excuse("ZC272", "", "offload at a stage that does not offload there: everything stays on the GPU"),
    Excuse("ZC273", "", "clipping by 0 becomes clipping by 1.0"),
    Excuse("ZC280", "", "num_processes // num_machines loses the remainder"),
    Excuse("ZC281", "", "no hostfile: trains on one machine of several"),
    Excuse("ZC113", "/scheduler/params/warmup_type$", "an unknown warm-up becomes the logarithmic one"),
    # refused or stuck where the judge does not go: other machines, GPUs, a data loader, other features
    Excuse("ZC111", _NOT_IN_A_TOY, "fails when the feature is used"),
    Excuse("ZC112", _NOT_IN_A_TOY, "fails when the feature is used"),
    Excuse("ZC113", _NOT_IN_A_TOY, "fails when the feature is used"),
    Excuse("ZC114", _NOT_IN_A_TOY, "fails when the feature is used"),
    Excuse("ZC115", _NOT_IN_A_TOY, "fails when the feature is used"),
    Excuse("ZC115", "/train_(micro_)?batch", "no data loader makes a fraction of a sample"),
    Excuse("ZC283", "", "other machines cannot reach the address"),
    Excuse("ZC284", "", "the rendezvous waits for a machine that never comes"),
    Excuse("ZC288", "", "CUDA refuses the device's number"),
    Excuse("ZC289", "", "the machines do not know each other's port"),
)


def excused(code: str, pointer: str) -> bool:
    """Whether an error at the place stands in the list."""
    return any(excuse.code == code and re.search(excuse.pointer, pointer) for excuse in EXCUSES)


# what a library's error says -> the codes that name the same cause
CAUSES: dict[str, tuple[str, ...]] = {}
