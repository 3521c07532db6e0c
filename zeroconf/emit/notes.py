"""Why each key has its value, for the keys that are not the plan's own decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroconf.choices import OVERFLOW_IN_FP16
from zeroconf.emit.blocks import base_config
from zeroconf.faulty import BF16_OVERFLOW_UNCHECKED, OVERLAP_RACES
from zeroconf.types import Reason
from zeroconf.units import gib, ranks_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.types import Facts, Plan


def leaves(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every value by its dotted path; lists count as values."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            found |= leaves(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def key_notes(facts: Facts, plan: Plan) -> tuple[Reason, ...]:
    """A reason for each emitted key that a plan does not decide: clipping, precision, saving, ownership.

    Raises:
        InputError: as ``ds_config``.
    """
    texts = _batch_texts(facts, plan) | _precision_texts(facts) | _optimizer_texts(facts, plan)
    texts |= _zero_texts(facts, plan) | _swap_texts(facts)
    values = leaves(base_config(facts, plan))
    return tuple(
        Reason(key=key, value=values[key], rule=rule, because=because)
        for key, (rule, because) in texts.items()
        if key in values
    )


def _batch_texts(facts: Facts, plan: Plan) -> dict[str, tuple[str, str]]:
    micro, steps, ranks = plan.micro_batch_size, plan.gradient_accumulation_steps, facts.data_parallel_size
    name = ranks_name(facts.workload.ranks_per_sample)
    product = f"{micro} x {steps} x {ranks} {name} = {micro * steps * ranks} sequences per optimizer step"
    pinned = {
        "trainer": "the Trainer refuses other sizes than these, for which the memory was computed",
        "accelerate": "Accelerate does not compare it with the DataLoader, so give the DataLoader the same size",
        "deepspeed": "give the DataLoader the same size",
    }[facts.reader]
    owner = {
        "trainer": "equal to --gradient_accumulation_steps",
        "accelerate": "Accelerate takes it over the script's own number",
        "deepspeed": "DeepSpeed counts micro steps by itself: call engine.step() after each",
    }[facts.reader]
    clipping = (
        "filled from the Trainer's max_grad_norm"
        if facts.reader == "trainer"
        else "gradients are clipped to norm 1.0, the Trainer's default; set yours"
    )
    return {
        "train_micro_batch_size_per_gpu": ("batch-product", f"{product}; {pinned}"),
        "gradient_accumulation_steps": ("batch-product", f"{product}; {owner}"),
        "gradient_clipping": (
            "clipping-explicit",
            f"{clipping}; without the key DeepSpeed clips at 1.0 since 0.19.3 and not at all before",
        ),
    }


def _precision_texts(facts: Facts) -> dict[str, tuple[str, str]]:
    gpu = facts.cluster.gpu.name
    fp16 = f"{gpu} has no bf16"
    if facts.cluster.gpu.bf16:
        asked = "asked for (--precision)" if facts.given is None else "asked for, by --precision or the base file"
        fp16 = f"{asked}; {gpu} has bf16 too, which needs no loss scaling"
    if facts.model.architecture in OVERFLOW_IN_FP16:
        fp16 += (
            f"; {facts.model.name} was trained in bf16 and overflows in fp16, until the loss scale is at its minimum"
        )
    return {
        "bf16.enabled": ("precision", f"{gpu} computes in bf16, whose range needs no loss scaling"),
        "bf16.check_grad_overflow": (
            "precision",
            f"skips steps with NaN gradients, on which DeepSpeed {BF16_OVERFLOW_UNCHECKED} trains otherwise",
        ),
        "fp16.enabled": ("precision", fp16),
        "fp16.loss_scale": ("precision", "0 adapts the loss scale to overflows; a fixed scale underflows or overflows"),
        "fp16.initial_scale_power": ("precision", "starts at 2^16; each overflow halves it and skips one step"),
    }


def _optimizer_texts(facts: Facts, plan: Plan) -> dict[str, tuple[str, str]]:
    offloaded = plan.offload_optimizer != "none"
    if facts.reader == "trainer":
        owner = (
            "DeepSpeed builds it from the Trainer's own learning rate, betas, eps and weight decay; "
            "the decay then covers norms and biases too"
        )
        params = "filled from TrainingArguments"
    else:
        owner = "DeepSpeed builds it; pass model_parameters to deepspeed.initialize and no optimizer"
        params = "a usual start for fine-tuning, yours to change"
    if offloaded:
        owner += "; on the CPU it is DeepSpeed's vectorized one"
    names = ("lr", "betas", "eps", "weight_decay")
    return {f"optimizer.params.{name}": ("optimizer-owner", params) for name in names} | {
        "optimizer.type": ("optimizer-owner", owner),
        "optimizer.params.adam_w_mode": ("optimizer-owner", "without it DeepSpeed's Adam decays weights as AdamW does"),
        "zero_force_ds_cpu_optimizer": (
            "optimizer-owner",
            "keeps the script's optimizer under offload, where it would be refused or replaced; its step is slower",
        ),
        "zero_allow_untested_optimizer": (
            "optimizer-owner",
            "ZeRO accepts other optimizers than Adam, AdamW, Adagrad and Lion only with this",
        ),
    }


def _zero_texts(facts: Facts, plan: Plan) -> dict[str, tuple[str, str]]:
    width = 4 if facts.workload.precision == "fp32" else 2
    weights = gib(facts.model.num_parameters * width)
    if facts.cluster.num_gpus == 1:
        overlap = "one GPU has nothing to reduce"
    elif plan.overlap_comm:
        overlap = "gradients are reduced while the backward pass runs, for one more bucket of memory at stages 1 and 2"
    elif plan.stage == 2:
        overlap = f"it can send gradients too early in DeepSpeed {OVERLAP_RACES} (ZC602)"
    else:
        overlap = "reduces a bucket before the backward pass goes on; no second bucket is held"
    pinned = ("offload-pinned", "page-locked host memory copies at full speed; needs ulimit -l unlimited")
    return {
        "zero_optimization.stage": ("stage", f"stage {plan.stage}"),
        "zero_optimization.overlap_comm": ("overlap", f"{overlap}; stated because the default differs by stage"),
        "zero_optimization.stage3_gather_16bit_weights_on_model_save": (
            "save-gathered-weights",
            f"each save gathers {weights} into rank 0's host memory; false saves only shards, for zero_to_fp32.py",
        ),
        "zero_optimization.offload_optimizer.pin_memory": pinned,
        "zero_optimization.offload_param.pin_memory": pinned,
    }


def _swap_texts(facts: Facts) -> dict[str, tuple[str, str]]:
    disk = ("nvme-path", "a local disk on every node; a network file system or an overlay fails or crawls")
    tuned = ("nvme-io", "a start for data-centre SSDs; ds_nvme_tune measures better values for yours")
    return {
        "zero_optimization.offload_optimizer.nvme_path": disk,
        "zero_optimization.offload_optimizer.buffer_count": (
            "nvme-buffers",
            "4: parameter, gradient and Adam's two moments of one sub-group at a time",
        ),
        "zero_optimization.offload_param.nvme_path": disk,
        "zero_optimization.offload_param.buffer_count": ("nvme-buffers", "parameters in flight at once"),
        "zero_optimization.offload_param.buffer_size": (
            "nvme-buffers",
            f"elements, at least the largest parameter's share of one of {facts.cluster.num_gpus} ranks",
        ),
    } | {f"aio.{name}": tuned for name in ("block_size", "queue_depth", "intra_op_parallelism", "thread_count")}
