"""What is known of failures: why they happen, and what helps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Cause:
    """A known failure: how its message looks, why it happens, what helps. ``issue`` is public.

    Most are of a library, and mean nothing where the user's own program raises; ``anywhere`` are the others.
    """

    pattern: str
    why: str
    cure: str
    issue: str = ""
    anywhere: bool = False


CAUSES = (
    Cause(
        r"No space left on device|Disk quota exceeded",
        "a disk is full",
        "make room on the disks of temporary files and of the cache, or set TMPDIR and ZEROCONF_CACHE to others",
        anywhere=True,
    ),
    Cause(
        r"\bmics_(shard_size|hierarchical_params_gather)\b|\bMiCS\b",
        "MiCS sharding was removed from DeepSpeed",
        "delete the mics_* keys; zero_hpz_partition_size partitions inside the node",
        "huggingface/accelerate#3442",
    ),
    Cause(
        r"^DeepSpeedConfigError: .* has been removed\b",
        "this DeepSpeed release refuses the block even when it is disabled",
        "delete the block from the file",
        "deepspeedai/DeepSpeed#8489",
    ),
    Cause(
        r"extra_forbidden|Extra inputs are not permitted|extra fields not permitted",
        "DeepSpeed does not know this key in this block",
        "correct or delete the key; `zeroconf lint` suggests the right one",
        "deepspeedai/DeepSpeedExamples#513",
    ),
    Cause(
        r"Check batch related parameters|train_batch_size is not equal",
        "train_batch_size must equal micro batch x accumulation steps x processes",
        "start as many processes as the file was written for, or delete train_batch_size",
        "deepspeedai/DeepSpeed#3228",
    ),
    Cause(
        r"Either train_batch_size or train_micro_batch_size_per_gpu",
        "no batch size is given",
        "set train_micro_batch_size_per_gpu",
        "deepspeedai/DeepSpeed#17",
    ),
    Cause(
        r"([Bb]atch size|[Bb]atch size per gpu|accumulation steps): -?\d+ has to be greater than 0",
        "train_batch_size is smaller than the number of processes",
        "raise train_batch_size, or start fewer processes",
        "deepspeedai/DeepSpeed#17",
    ),
    Cause(
        r"not supported between instances of 'str' and '(int|float)'|\b[Gg]ot:? auto\b|"
        r"Please specify `\S+` without `auto`",
        'a number is a string, or an "auto" is left that nobody fills',
        "write the number without quotes",
        "deepspeedai/DeepSpeed#1270",
    ),
    Cause(
        r"^AttributeError: '(str|list|int|float|bool)' object has no attribute '(keys|get|items)'",
        "a block of the file is a plain value",
        "write the block as {...}; `zeroconf lint` shows which",
    ),
    Cause(
        r"\bfp16 is not supported|\bType fp16\b",
        "this device does not compute in fp16",
        "use bf16, or fp32; fp16 needs a GPU",
        "deepspeedai/DeepSpeed#6723",
    ),
    Cause(
        r"loss scale already at minimum",
        "gradients were not finite at any scale",
        "use bf16 instead of fp16, or lower the learning rate; if the first loss is not finite, look at the data and "
        "the weights",
        anywhere=True,
    ),
    Cause(
        r"bfloat16 and fp16 modes cannot be simultaneously enabled",
        "both precisions are switched on",
        "keep one of bf16 and fp16",
    ),
    Cause(
        r"\bcpu_adam\b|CPUAdam\b|\bds_opt_adam\b",
        "optimizer offload compiles DeepSpeedCPUAdam, and the compilation failed",
        "install g++, ninja and Python's headers (build-essential, ninja-build, python3-dev), or DeepSpeed with "
        'DS_BUILD_CPU_ADAM=1 where they are; "torch_adam": true in the optimizer\'s params does without, slowly',
        "deepspeedai/DeepSpeed#1846",
    ),
    Cause(
        r"\basync_io\b|\bAsyncIO\b",
        "NVMe offload needs libaio's headers",
        "install libaio-dev, then run again",
        "deepspeedai/DeepSpeed#2503",
    ),
    Cause(
        r"ninja not being installed|Ninja is required|JIT load|Error building extension|did not compile",
        "a DeepSpeed operator could not be compiled",
        "install g++ and ninja (build-essential, ninja-build) in the training environment",
        "deepspeedai/DeepSpeed#5677",
    ),
    Cause(
        r"untested ZeRO Optimizer",
        "DeepSpeed has no test of this optimizer with ZeRO",
        'set "zero_allow_untested_optimizer": true at the top level',
    ),
    Cause(
        r"Partial offloading only supported",
        "offload_optimizer.ratio below 1 needs stage 3",
        "use stage 3, or delete ratio",
        "deepspeedai/DeepSpeed#4571",
    ),
    Cause(
        r"is not a supported DeepSpeed Optimizer|has no attribute '\w+'.*torch.optim",
        "this DeepSpeed release does not have that optimizer",
        "use AdamW, or bring the optimizer in the script",
    ),
    Cause(
        r"More elements \d+ than buffer size",
        "the largest parameter is larger than offload_param.buffer_size",
        "raise buffer_size to vocabulary x hidden size",
        "deepspeedai/DeepSpeed#3506",
    ),
    Cause(
        r"Not enough buffers \d+ for swapping",
        "each parameter that is gathered holds a swap buffer, and offload_param.buffer_count has too few of them",
        "raise offload_param.buffer_count to the large weights that are gathered at once (7 a block of a Llama), or "
        "lower stage3_max_live_parameters and stage3_prefetch_bucket_size",
        "deepspeedai/DeepSpeed#3062",
    ),
    Cause(
        r"Please correct the following DeepSpeed config values",
        "the script's arguments differ from the file",
        "pass the arguments that the file was written for (`zeroconf generate` prints them; `zeroconf lint` on the "
        'launch script shows all that differ), or write "auto" there',
        "CarperAI/trlx#376",
    ),
    Cause(
        r"accelerate config variables will be ignored|`--mixed_precision` arg cannot be set to",
        "the ds_config.json that the Accelerate YAML names says these already",
        "delete those of these keys that the Accelerate YAML or the launch line has, mixed_precision among them",
    ),
    Cause(
        r"You cannot specify an? (optimizer|scheduler) in the config file and in the code",
        "the file has one, and the script brings its own",
        "delete the block from the file, or let the script create accelerate.utils.DummyOptim (DummyScheduler)",
    ),
    Cause(
        r"You cannot create a `DummyOptim`|Either specify a scheduler in the config file|"
        r"You can only specify `accelerate\.utils\.DummyScheduler`",
        "the script leaves it to the file, which has none",
        'add the "optimizer" ("scheduler") block to the file, or let the script create a real one',
    ),
    Cause(
        r"has `None` as batch size|at least one of training or evaluation dataloaders",
        'Accelerate fills "auto" from the data loader, which does not say its batch size',
        "write train_micro_batch_size_per_gpu as a number",
    ),
    Cause(
        r"`model\.config` entry|neither `model\.config\.hidden_size`|The model's config file has neither",
        '"auto" bucket sizes are filled from the model\'s hidden size, which it does not say',
        "write the keys that are named as numbers",
    ),
    Cause(
        r"FlashAttention\d? has been toggled on|does not support Flash Attention|attempting to use Flash Attention",
        "flash attention needs a GPU, the flash-attn package and a model that takes it",
        'use sdpa (--attention sdpa; in a script attn_implementation="sdpa"), or install flash-attn where a GPU is',
        anywhere=True,
    ),
    Cause(
        r"flash attention takes bf16 and fp16|FlashAttention only support",
        "the model computes in fp32",
        "use --attention sdpa, bf16 or fp16",
    ),
    Cause(
        r"has no flash attention",
        "transformers refuses it for this model",
        "use --attention sdpa or eager",
    ),
    Cause(
        r"unrecognized arguments: .*--local_rank|no such option: --local_rank",
        "the deepspeed launcher gives it to every program",
        "use --launcher torchrun, or let the script take --local_rank",
        anywhere=True,
    ),
    Cause(
        r"need to assign use_cpu",
        "without a GPU the Trainer wants to be told",
        "add --use_cpu to the script's arguments",
        anywhere=True,
    ),
    Cause(
        r"^ModuleNotFoundError",
        "the training environment lacks it",
        "install it there, or name the environment that has it with --python",
        anywhere=True,
    ),
    Cause(
        r"was not reachable via ssh|^SSHError|Permission denied \(publickey|Host key verification failed",
        "a host of the hostfile cannot be reached",
        "make `ssh HOST true` work without a password or a question, from this machine",
        anywhere=True,
    ),
    Cause(
        r"EADDRINUSE|[Aa]ddress already in use",
        "another process took the port",
        "run it again: each run draws another port",
        anywhere=True,
    ),
    Cause(
        r"\b\d+ is not divisible by \d+|\bworld_size \(\d+\) is not divisible by",
        "a partition or group size does not divide the number of processes",
        "use a divisor of the number of processes",
        "deepspeedai/DeepSpeed#4386",
    ),
)

CURES: Final = {
    "oom": "a smaller micro batch, activation checkpointing, a higher ZeRO stage or offload; `zeroconf generate` "
    "ranks them",
    "hang": "raise --timeout or lower --seq-len if it was only slow; else look at the ranks' last phases in the log",
    "no-steps": "the Trainer needs --deepspeed FILE among the script's arguments and enough data for a step, an "
    "Accelerate script --launcher accelerate with CONFIG",
}
_ACTIVATIONS: Final = "a shorter sequence, a smaller micro batch, activation checkpointing, sdpa or flash attention"
_NODE: Final = "fewer processes per node or more host memory"


def known_cause(line: str, *, by_library: bool) -> Cause | None:
    """What a message of one line is known to mean; ``by_library`` is false where the user's own program raised it."""
    causes = (cause for cause in CAUSES if by_library or cause.anywhere)
    return next((cause for cause in causes if re.search(cause.pattern, line)), None)


def no_steps_cure(record: Mapping[str, Any]) -> str:
    """What helps a program without an optimizer step, by how far it came."""
    environment = record.get("environment", {})
    if record.get("skipped"):
        return "give it more steps, lower fp16.initial_scale_power, or use bf16"
    if "zero_stage" in environment:
        steps = environment.get("gradient_accumulation_steps")
        return f"an optimizer step takes {steps} micro batches, as gradient_accumulation_steps says: give it as many"
    return CURES["no-steps"]


def host_memory_cure(phase: str, ds_config: Mapping[str, Any]) -> str:
    """What lowers host memory in a phase: with forward and backward it is what they keep, else what offload moves."""
    less = (
        f"less offload, {_NODE}; offload needs about 16 to 18 bytes per parameter and node (deepspeedai/DeepSpeed#4239)"
    )
    offload = _offloads(ds_config)
    if phase in {"forward", "backward"}:
        return f"{_ACTIVATIONS}; else {less if offload else _NODE}"
    if phase in {"init", "step"}:
        return less if offload else f"{_NODE}, or a higher ZeRO stage"
    return f"{_NODE}: each process imports, and builds or loads what it trains"


def _offloads(ds_config: Mapping[str, Any]) -> bool:
    zero = ds_config.get("zero_optimization")
    if not isinstance(zero, dict):
        return False
    blocks = (zero.get(name) for name in ("offload_optimizer", "offload_param"))
    devices = {block.get("device", "none") for block in blocks if isinstance(block, dict)}
    return zero.get("cpu_offload") is True or not devices <= {"none", None}
