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
}


class Excuse(NamedTuple):
    """An error that the judge cannot see for a reason: at these places, something else happens than the file says."""

    code: str
    pointer: str
    reason: str


_NOT_IN_A_TOY = r"^/(aio|autotuning|expert_parallel|data_efficiency|pipeline|activation_checkpointing)(/|$)"
_ANYTHING_IS_TRUE = (
    r"^/(zero_allow_|zero_force_|dump_state|memory_breakdown|dataloader_drop|disable_|managed_|use_data_|prescale)"
    r"|^/(checkpoint|torch_autocast)/|^/optimizer/(legacy_fusion|params/(adam_w_mode|bias_correction|torch_adam|"
    r"set_grad_none|fp32_optimizer_states|amsgrad)$)"
)
EXCUSES = (
    # nothing reports it, and something else happens than the file says
    Excuse("ZC003", "", "HJSON's text without quotes takes in what stands behind it"),
    Excuse("ZC004", "", "HJSON's text True with what stands behind it, which may count as true"),
    Excuse("ZC005", "", "Python's json and PyYAML keep the last of two"),
    Excuse("ZC008", "/zero_optimization/stage$", "Transformers compares with the number: every rank loads the model"),
    *(
        Excuse(code, "/optimizer/params/lr$", "harmless as long as a scheduler sets the rate over")
        for code in ("ZC008", "ZC111", "ZC121")
    ),
    Excuse("ZC009", "/(fp16|bf16)/enabled$", "Accelerate takes any text for true"),
    Excuse("ZC111", _ANYTHING_IS_TRUE, "what is not empty counts as true, what is empty as false"),
    Excuse("ZC111", "^/bfloat16", "the Trainer and Accelerate do not read the block"),
    Excuse("ZC219", "^/bfloat16", "the Trainer and Accelerate do not read the block"),
    Excuse("ZC111", "^/(timers|vocabulary_size)$", "what is no block, or no number, is passed over"),
    Excuse("ZC111", "^/(optimizer|scheduler)/type$", "a block without a type does nothing"),
    Excuse("ZC222", "", "a block without a type does nothing"),
    Excuse("ZC111", "/scheduler/params/warmup_type$", "an unknown warm-up becomes the logarithmic one"),
    Excuse("ZC113", "/scheduler/params/warmup_type$", "an unknown warm-up becomes the logarithmic one"),
    Excuse("ZC111", "/last_batch_iteration$", "the engine catches the TypeError and counts samples"),
    Excuse("ZC114", "/optimizer/params/betas$", "true counts as 1.0, with which Adam divides by 0"),
    Excuse("ZC115", "^/flops_profiler/", "the step never comes"),
    Excuse("ZC136", "", "a truth word other than true leaves zero3_save_16bit_model off"),
    Excuse("ZC235", "", "offload at stage 0: everything stays on the GPU"),
    Excuse("ZC236", "", "below stage 3 NVMe becomes the host's memory"),
    Excuse("ZC240", "", "offload_param below stage 3: parsed, and the parameters stay on the GPU"),
    Excuse("ZC262", "", "the size that is read stays 0"),
    Excuse("ZC271", "", "the path for NVMe is lost: swapped into a folder named none"),
    Excuse("ZC272", "", "offload at a stage that does not offload there: everything stays on the GPU"),
    Excuse("ZC273", "", "clipping by 0 becomes clipping by 1.0"),
    Excuse("ZC277", "", "the block of another distributed type is dropped"),
    Excuse("ZC280", "", "num_processes // num_machines loses the remainder"),
    Excuse("ZC281", "", "no hostfile: trains on one machine of several"),
    Excuse("ZC009", "^/checkpoint/load_universal$", "DeepSpeed takes any text for true"),
    # refused or stuck where the judge does not go: other machines, GPUs, a data loader, other features
    *(Excuse(f"ZC11{digit}", _NOT_IN_A_TOY, "fails when the feature is used") for digit in range(1, 6)),
    *(Excuse(f"ZC11{digit}", "^/sequence_parallel_size$", "read by others") for digit in range(1, 6)),
    Excuse("ZC121", "/scheduler/params/", "computed with after the warm-up"),
    Excuse("ZC121", _NOT_IN_A_TOY, "fails when the feature is used"),
    Excuse("ZC011", "", "hjson makes text of NaN, which fails where it is used"),
    Excuse("ZC115", "/gradient_accumulation_steps$", "gradients are divided by another number than are added up"),
    Excuse("ZC135", "/machine_rank$", "torchrun refuses the rank"),
    Excuse("ZC285", "", "the deepspeed launcher refuses the name"),
    Excuse("ZC111", "^/scheduler/params/", "fails when the schedule comes to it"),
    Excuse("ZC283", "", "other machines cannot reach the address"),
    Excuse("ZC284", "", "the rendezvous waits for a machine that never comes"),
    Excuse("ZC288", "", "CUDA refuses the device's number"),
    Excuse("ZC289", "", "the machines do not know each other's port"),
)


def excused(code: str, pointer: str) -> bool:
    """Whether an error at the place stands in the list."""
    return any(excuse.code == code and re.search(excuse.pointer, pointer) for excuse in EXCUSES)


# what stops the judge's model and not every model -> the code that warns of it, whatever its severity
WARNED: dict[str, str] = {
    "must have the same dtype": "ZC214",  # auto_cast with fp16 off: float inputs that are given by position
}

# what a library's error says -> the codes that name the same cause
CAUSES: dict[str, tuple[str, ...]] = {
    "modulo by zero": ("ZC112",),
    "Less than two GPU ids": ("ZC290",),
    "lower precision safe module": ("ZC114",),
    "has been removed": ("ZC105",),
    "Extra inputs are not permitted": ("ZC101", "ZC103", "ZC105", "ZC106"),
    "Check batch related": ("ZC201",),
    "Either train_batch_size": ("ZC202",),
    "Duplicate keys": ("ZC005",),
    "dynamic loss scaling is enabled": ("ZC117",),
    "fractional part": ("ZC115",),
    "Input should be greater": ("ZC112",),
    "Input should be 0, 1, 2, 3": ("ZC111", "ZC112", "ZC113", "ZC008"),
    "valid boolean": ("ZC009", "ZC111"),
    "Invalid communication_data_type": ("ZC113",),
    "not supported between instances of 'str'": ("ZC008", "ZC121"),
    "unsupported operand type(s) for //": ("ZC008", "ZC121"),
    "can't multiply sequence": ("ZC008", "ZC121"),
    "is not a supported DeepSpeed Optimizer": ("ZC220",),
    "got unexpected params": ("ZC231",),
    "max_grad_norm is not an optimizer parameter": ("ZC107", "ZC224"),
    "warmup_num_steps must be": ("ZC112", "ZC232"),
    "'bool' object has no attribute": ("ZC013", "ZC205"),
    "Please specify the ZeRO": ("ZC205",),
    "not found in kwargs": ("ZC120", "ZC208"),
    "'int' and 'NoneType'": ("ZC206",),
    "'..' object has no attribute '..'": ("ZC206",),
    "mismatch TrainingArguments": ("ZC008", "ZC009", "ZC218", "ZC223"),
    "strict json": ("ZC002", "ZC003", "ZC004"),
    "JSONDecodeError": ("ZC001", "ZC002", "ZC003", "ZC004", "ZC006"),
    "had unknown keys": ("ZC131",),
    "deepspeed_config_file with": ("ZC270",),
    "contains a bad entry": ("ZC020",),
    "multiple entries": ("ZC021",),
}
