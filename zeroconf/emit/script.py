"""What the training script has to say itself, since no DeepSpeed configuration can.

Adapters, quantization, 8-bit optimizers, what computes attention and the loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zeroconf.choices import Attention, Optimizer, Quantization
    from zeroconf.types import Facts, Plan, Workload

# bitsandbytes' class, and the Trainer's --optim (transformers/training_args.py: OptimizerNames)
_BITSANDBYTES: Final[dict[Optimizer, tuple[str, str]]] = {
    "adamw-8bit": ("AdamW8bit", "adamw_bnb_8bit"),
    "lion-8bit": ("Lion8bit", "lion_8bit"),
}
_ATTENTIONS: Final[dict[Attention, str]] = {"flash": "flash_attention_2", "sdpa": "sdpa", "eager": "eager"}
PARAMETER_STAGE: Final = 3
# zero.Init with quantized weights: bitsandbytes-foundation/bitsandbytes#1249; the storage: peft's DeepSpeed guide
STAGE_3_CONDITION: Final = (
    "stage 3 partitions packed weights after each GPU has loaded all of them; its limits count as here with that "
    "bnb_4bit_quant_storage; without recomputation, or without use_reentrant, gathered weights stay until backward"
)
_DTYPES: Final = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}


def optimizer_flags(workload: Workload) -> list[str]:
    """The Trainer's flag for an optimizer that it builds itself."""
    return [f"--optim {_BITSANDBYTES[workload.optimizer][1]}"] if workload.optimizer in _BITSANDBYTES else []


def loss_flags(workload: Workload) -> list[str]:
    """The Trainer's flag for a loss that is computed with the vocabulary's projection, by Liger."""
    return ["--use_liger_kernel true"] if workload.cross_entropy == "fused-linear" else []


def checkpointing_flags(workload: Workload, plan: Plan) -> list[str]:
    """The Trainer's flags for recomputation."""
    flags = ["--gradient_checkpointing true"]
    if needs_reentrance(workload, plan):
        flags.append("""--gradient_checkpointing_kwargs '{"use_reentrant": true}'""")
    return flags


def script_notes(facts: Facts, plan: Plan) -> tuple[str, ...]:
    """The lines of Python that the plan rests on, each with its reason."""
    workload = facts.workload
    found = []
    if workload.optimizer in _BITSANDBYTES and facts.reader != "trainer":
        found.append(
            f"the script builds the optimizer: bitsandbytes.optim.{_BITSANDBYTES[workload.optimizer][0]}"
            "(model.parameters(), lr=...)"
        )
    if workload.optimizer in _BITSANDBYTES:
        found.append(
            f"zeroconf smoke-test steps with AdamW in the place of {workload.optimizer}: its states are larger"
        )
    found += _loss_notes(facts)
    if "attention" in facts.asked:
        found.append(
            "the script loads the model with from_pretrained(..., attn_implementation="
            f"{_ATTENTIONS[workload.attention]!r})"
        )
    if workload.lora_rank and workload.quantize is None:
        found.append(
            "the script adds the adapters: peft's get_peft_model(model, LoraConfig("
            f'r={workload.lora_rank}, target_modules="all-linear"))'
        )
    if workload.quantize is not None:
        found.append(
            "zeroconf smoke-test, dry run included, builds no packed weights: there is no command for this plan"
        )
        found += _quantized_notes(workload, workload.quantize, plan)
    return tuple(found)


def _loss_notes(facts: Facts) -> list[str]:
    """How the script gets another loss than the model's own, and that a smoke test has that one."""
    loss = facts.workload.cross_entropy
    if loss == "torch":
        return []
    asks = {
        "fused-linear": "the script loads the model with liger_kernel.transformers.AutoLigerKernelForCausalLM",
        "fused": "the script computes the loss with flash_attn.losses.cross_entropy.CrossEntropyLoss",
    }[loss]
    if loss_flags(facts.workload) and facts.reader == "trainer":
        asks = "--use_liger_kernel needs the package liger-kernel, and a model that it knows"
    return [asks, "zeroconf smoke-test computes PyTorch's loss: there is no command for this plan"]


def _quantized_notes(workload: Workload, quantize: Quantization, plan: Plan) -> list[str]:
    """How the model is loaded, and what stage 3 needs for it.

    The names are those of transformers.BitsAndBytesConfig, whose defaults are fp4, no double quantization, and fp32
    for computing.
    """
    dtype = _DTYPES[workload.precision]
    settings = (
        "load_in_4bit=True",
        'bnb_4bit_quant_type="nf4"',
        f"bnb_4bit_use_double_quant={quantize == 'nf4-double'}",
        f"bnb_4bit_compute_dtype={dtype}",
        f"bnb_4bit_quant_storage={dtype}",
    )
    reentrant = ", gradient_checkpointing_kwargs={'use_reentrant': True}" if needs_reentrance(workload, plan) else ""
    loaded = (
        f"the script loads the model with from_pretrained(..., dtype={dtype}, quantization_config=BitsAndBytesConfig("
        f"{', '.join(settings)})), then takes peft's prepare_model_for_kbit_training(model, "
        f"use_gradient_checkpointing={plan.activation_checkpointing}{reentrant}) and get_peft_model"
    )
    return [loaded, STAGE_3_CONDITION] if plan.stage == PARAMETER_STAGE else [loaded]


def needs_reentrance(workload: Workload, plan: Plan) -> bool:
    """Whether recomputation has to be reentrant, which is not the default of Transformers 5.

    bitsandbytes, autograd/_functions.py: MatMul4Bit keeps the gathered weight where only reentrance lets it go.
    """
    return workload.quantize is not None and plan.stage == PARAMETER_STAGE and plan.activation_checkpointing
