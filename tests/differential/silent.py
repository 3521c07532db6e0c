"""Errors on files that the judge accepts, each with its reason; and which codes name a library's error."""

from __future__ import annotations

# nothing reports it, and something else happens than the file says
QUIET: dict[str, str] = {
    "ZC132": "a key in deepspeed_config that Accelerate does not know reaches nobody",
    "ZC136": "a truth word other than true leaves zero3_save_16bit_model off",
    "ZC240": "offload_param below stage 3: parsed, and the parameters stay on the GPU",
    "ZC271": "the path for NVMe is lost: swapped into a folder named none",
    "ZC272": "offload at a stage that does not offload there: everything stays on the GPU",
    "ZC273": "clipping by 0 becomes clipping by 1.0",
    "ZC277": "the block of another distributed type is dropped",
    "ZC280": "num_processes // num_machines loses the remainder",
    "ZC281": "no hostfile: trains on one machine of several",
}

# refused or stuck where the judge does not go: other machines, GPUs, a data loader
LATER: dict[str, str] = {
    "ZC283": "other machines cannot reach the address",
    "ZC284": "the rendezvous waits for a machine that never comes",
    "ZC288": "CUDA refuses the device's number",
    "ZC289": "the machines do not know each other's port",
}

SILENT = QUIET | LATER

# what a library's error says -> the codes that name the same cause
CAUSES: dict[str, tuple[str, ...]] = {}
