"""The workload: what was asked for, completed by defaults that are said, checked for contradictions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NoReturn, get_args

from zeroconf.choices import (
    OVERFLOW_IN_FP16,
    Attention,
    Checkpointing,
    CrossEntropy,
    Offload,
    Optimizer,
    Precision,
    Quantization,
)
from zeroconf.errors import InputError
from zeroconf.inputs.lora import with_lora
from zeroconf.inputs.text import clean, shown
from zeroconf.types import Cluster, Workload
from zeroconf.units import count, parse_count, ranks_name

if TYPE_CHECKING:
    from zeroconf.types import Gpu, GpuType, ModelSpec

DEFAULT_SEQUENCE_LENGTH = 4096
DEFAULT_TOKENS_PER_STEP = 524_288
DEFAULT_HEADROOM = 0.2
MAX_HEADROOM = 0.9
MAX_SEQUENCE_LENGTH = 2**27
MAX_BATCH_SIZE = 2**40
MAX_FROZEN_PARAMETERS = 10**14
MAX_STAGE = 3
# flash-attn 2 needs Ampere; PyTorch's own kernels keep about as little there
_WITHOUT_FLASH = {"Pascal", "Volta", "Turing"}
_NO_FLASH = "; on {} that means PyTorch's sdpa, and --attention eager where all scores are kept"


def _fail(message: str) -> NoReturn:
    raise InputError(message)


def _checked(value: int | None, what: str, high: int, low: int = 1) -> None:
    if value is not None and not low <= value <= high:
        _fail(f"{what} {value} is out of range; give {low} to {high}")


def _checked_word(value: str | None, what: str, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        _fail(f"{what} '{shown(value)}' is not known; give one of {', '.join(known)}")


def _power_of_two_near(value: float) -> int:
    return 1 if value <= 1 else 2 ** round(math.log2(value))


def _sequence_length(model: ModelSpec, asked: int | None, notes: list[str]) -> int:
    longest = model.max_sequence_length
    if asked is None:
        length = min(DEFAULT_SEQUENCE_LENGTH, longest or DEFAULT_SEQUENCE_LENGTH)
        why = f"the maximum of {model.name}" if length == longest else "the default"
        notes.append(f"sequence length {length} ({why})")
        return length
    _checked(asked, "sequence length", MAX_SEQUENCE_LENGTH)
    if longest is not None and asked > longest:
        notes.append(f"sequence length {asked} is beyond the maximum of {model.name}, {longest}")
    return asked


def usual_precision(gpu: Gpu, model: ModelSpec) -> Precision:
    """bf16 where the GPU computes in it, else fp16; fp32 on Pascal, where DeepSpeed refuses fp16, and of a T5."""
    if gpu.bf16:
        return "bf16"
    return "fp32" if gpu.deprecates_fp16 or model.architecture in OVERFLOW_IN_FP16 else "fp16"


def _precision(gpu: Gpu, model: ModelSpec, asked: Precision | None, notes: list[str]) -> Precision:
    _checked_word(asked, "precision", get_args(Precision))
    if asked is None:
        usual = usual_precision(gpu, model)
        why = f"{gpu.name} has {'' if usual == 'bf16' else 'no '}bf16"
        if usual == "fp32" and gpu.deprecates_fp16:
            why += ", and DeepSpeed takes fp16 there only where DS_ALLOW_DEPRECATED_FP16=1 is set: --precision fp16 "
            why += "does both"
        elif usual == "fp32":
            why += f", and {model.name} overflows in fp16: it was trained in bf16"
        notes.append(f"precision {usual} ({why})")
        return usual
    if asked == "bf16" and not gpu.bf16:
        _fail(f"{gpu.name} has no bf16; use --precision fp16")
    return asked


def _nearest_multiples(value: int, unit: int) -> str:
    below = value // unit * unit
    return f"{below} or {below + unit}" if below else f"{unit}"


def _check_split(batch: int, ranks: int | None, name: str, micro: int | None, accumulation: int | None) -> None:
    """Whether the global batch is micro batch x accumulation x ranks, as far as these are known."""
    if ranks is not None and batch % ranks:
        unit = ranks * (micro or 1) * (accumulation or 1)
        _fail(
            f"global batch size {batch} is not a multiple of the {ranks} {name}; give {_nearest_multiples(batch, unit)}"
        )
    per_gpu = batch // (ranks or 1)
    if micro is not None and micro > per_gpu:
        _fail(f"micro batch size {micro} is more than the {per_gpu} sequences that global batch {batch} gives each GPU")
    if accumulation is not None and accumulation > per_gpu:
        _fail(f"gradient accumulation {accumulation} is more than the {per_gpu} sequences that each GPU has per step")
    split = (micro or 1) * (accumulation or 1)
    whole = ranks is not None and micro is not None and accumulation is not None
    if (whole and split != per_gpu) or per_gpu % split:
        factors = [("micro batch", micro), ("accumulation", accumulation), (name, ranks)]
        product = " x ".join(f"{value} ({name})" for name, value in factors if value is not None)
        unit = split * (ranks or 1)
        cure = f"give {unit}" if whole else f"give a multiple, {_nearest_multiples(batch, unit)}"
        _fail(f"global batch size {batch} does not match {product} = {unit}; {cure}")


def _global_batch_size(
    asked: int | None,
    *,
    ranks: int | None,
    ranks_per_sample: int,
    micro: int | None,
    accumulation: int | None,
    sequence_length: int,
    notes: list[str],
) -> int:
    """The batch asked for, the product of its given parts, or about 0.5M tokens in powers of two per GPU."""
    _checked(micro, "micro batch size", MAX_BATCH_SIZE)
    _checked(accumulation, "gradient accumulation", MAX_BATCH_SIZE)
    _checked(asked, "global batch size", MAX_BATCH_SIZE)
    name = ranks_name(ranks_per_sample)
    if asked is not None:
        _check_split(asked, ranks, name, micro, accumulation)
        return asked
    unit = (ranks or 1) * (micro or 1) * (accumulation or 1)
    if ranks is not None and micro is not None and accumulation is not None:
        _checked(unit, f"micro batch x accumulation x {name}, the global batch size", MAX_BATCH_SIZE)
        notes.append(f"global batch size {unit} (micro batch x accumulation x {name})")
        return unit
    batch = unit * _power_of_two_near(DEFAULT_TOKENS_PER_STEP / sequence_length / unit)
    _checked(batch, "global batch size", MAX_BATCH_SIZE)
    notes.append(f"global batch size {batch} (about 0.5M tokens: {count(batch * sequence_length)})")
    return batch


def _check_pins(cluster: Cluster, stage: int | None, offload: Offload | None) -> None:
    _checked(stage, "ZeRO stage", MAX_STAGE, low=0)
    _checked_word(offload, "offload", get_args(Offload))
    if offload in (None, "none"):
        return
    if stage == 0:
        _fail(f"offload '{offload}' needs partitioned states; pin --zero-stage 1, 2 or 3")
    if offload in ("all", "nvme") and stage is not None and stage < MAX_STAGE:
        _fail(f"offload '{offload}' needs stage 3; pin --zero-stage 3, or --offload optimizer")
    if offload == "nvme" and cluster.nvme is None:
        _fail("offload 'nvme' needs a disk; name that of a node with --nvme PATH:CAPACITY")


def check_bitsandbytes(workload: Workload, offload: Offload | None, where: str) -> None:
    """What bitsandbytes' optimizers and packed weights cannot do, whoever asks for it; ``where`` the offload stands.

    Under offload Accelerate takes other optimizers for the former (accelerate/utils/deepspeed.py:
    map_pytorch_optim_to_deepspeed).

    Raises:
        InputError: offload of either, full training of packed weights, or computing in fp32.
    """
    optimizer, quantize = workload.optimizer, workload.quantize
    if workload.optimizer_on_gpu and offload not in (None, "none"):
        _fail(
            f"optimizer '{optimizer}' updates on the GPU, and under offload ({where}) Accelerate and the Trainer put "
            "DeepSpeedCPUAdam in its place; use --optimizer adamw, or no offload"
        )
    if quantize is None:
        return
    if workload.lora_rank is None:
        _fail(f"--quantize {quantize} freezes the model's linear layers; say what trains with --lora-rank 16")
    if workload.precision == "fp32":
        _fail(f"--quantize {quantize} computes in 16 bits; use --precision bf16 or fp16")
    if offload in ("all", "nvme"):
        _fail(
            f"--quantize {quantize} keeps packed weights on the GPU, so they are not offloaded ({where}); leave it out"
        )


def _count(value: int | str | None, what: str) -> int | None:
    """A count as the command line or the project file gives it: ``20M``, ``0``, or a number."""
    if not isinstance(value, str):
        return value
    text = clean(value, what)
    return 0 if text == "0" else parse_count(text, what)


def _trainable(model: ModelSpec, lora_rank: int | None, asked: int | None, notes: list[str]) -> int | None:
    if lora_rank is not None and asked is not None:
        _fail("--lora-rank and --trainable-params say the same; give one of them")
    _checked(asked, "trainable parameters", model.num_parameters)
    if lora_rank is None:
        return asked
    trainable = with_lora(model, lora_rank)
    notes.append(f"LoRA rank {lora_rank} on all linear layers: {count(trainable)} trainable parameters")
    return trainable


def make_workload(
    model: ModelSpec,
    hardware: Cluster | GpuType,
    *,
    seq_len: int | None = None,
    micro_batch_size: int | None = None,
    global_batch_size: int | None = None,
    gradient_accumulation: int | None = None,
    precision: Precision | None = None,
    optimizer: Optimizer | None = None,
    client_optimizer: bool | None = None,
    activation_checkpointing: Checkpointing | None = None,
    attention: Attention | None = None,
    cross_entropy: CrossEntropy | None = None,
    lora_rank: int | None = None,
    quantize: Quantization | None = None,
    trainable_params: int | str | None = None,
    frozen_params: int | str | None = None,
    sequence_parallel_size: int = 1,
    tensor_parallel_size: int = 1,
    zero_stage: int | None = None,
    offload: Offload | None = None,
    headroom: float | None = None,
) -> Workload:
    """A workload from the options; None is a default, and each default is said in ``assumptions``.

    Of a GPU type without a count the number of GPUs is free, so batch sizes are checked only among themselves.

    Raises:
        InputError: a value out of range, or values that contradict each other or the cluster.
    """
    notes: list[str] = []
    cluster, num_gpus = (hardware, hardware.num_gpus) if isinstance(hardware, Cluster) else (hardware.one, None)
    ranks_per_sample = sequence_parallel_size * tensor_parallel_size
    ranks = None if num_gpus is None else num_gpus // ranks_per_sample
    _checked_word(optimizer, "optimizer", get_args(Optimizer))
    _checked_word(activation_checkpointing, "activation checkpointing", get_args(Checkpointing))
    _checked_word(attention, "attention", get_args(Attention))
    _checked_word(cross_entropy, "cross-entropy", get_args(CrossEntropy))
    _checked_word(quantize, "quantize", get_args(Quantization))
    frozen = _count(frozen_params, "frozen parameters")
    _checked(frozen, "frozen parameters", MAX_FROZEN_PARAMETERS, low=0)
    _check_pins(cluster, zero_stage, offload)
    if headroom is not None and not 0 <= headroom <= MAX_HEADROOM:
        _fail(f"headroom {headroom} is out of range; give 0 to {MAX_HEADROOM}, a share of the card")
    sequence_length = _sequence_length(model, seq_len, notes)
    batch = _global_batch_size(
        global_batch_size,
        ranks=ranks,
        ranks_per_sample=ranks_per_sample,
        micro=micro_batch_size,
        accumulation=gradient_accumulation,
        sequence_length=sequence_length,
        notes=notes,
    )
    chosen_precision = _precision(cluster.gpu, model, precision, notes)
    trainable = _trainable(model, lora_rank, _count(trainable_params, "trainable parameters"), notes)
    if frozen:
        notes.append(
            f"the frozen model of {count(frozen)}: whole on each GPU at stages 0 to 2, partitioned at stage 3, as TRL "
            "prepares a reference model; sequences count singly, a preference pair is two of them"
        )
    if optimizer is None:
        notes.append("optimizer adamw (the default)")
    if attention is None:
        old = cluster.gpu.architecture in _WITHOUT_FLASH
        notes.append(f"attention flash (the default){_NO_FLASH.format(cluster.gpu.name) if old else ''}")
    if activation_checkpointing is None:
        notes.append("activation checkpointing auto (the default)")
    made = Workload(
        sequence_length=sequence_length,
        global_batch_size=batch,
        micro_batch_size=micro_batch_size,
        gradient_accumulation_steps=gradient_accumulation,
        precision=chosen_precision,
        optimizer=optimizer or "adamw",
        client_optimizer=bool(client_optimizer),
        activation_checkpointing=activation_checkpointing or "auto",
        attention=attention or "flash",
        cross_entropy=cross_entropy or "torch",
        trainable_parameters=trainable,
        lora_rank=lora_rank,
        quantize=quantize,
        frozen_parameters=frozen or 0,
        sequence_parallel_size=sequence_parallel_size,
        tensor_parallel_size=tensor_parallel_size,
        zero_stage=zero_stage,
        offload=offload,
        headroom=DEFAULT_HEADROOM if headroom is None else headroom,
        assumptions=tuple(notes),
    )
    check_bitsandbytes(made, offload, f"--offload {offload}")
    return made
