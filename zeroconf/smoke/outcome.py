"""From what the ranks wrote to one verdict: outcome, explanation, cure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroconf.smoke.measured import Outcome


@dataclass(frozen=True, slots=True)
class Cause:
    """A known failure: how its message looks, why it happens, what helps. ``issue`` is public."""

    pattern: str
    why: str
    cure: str
    issue: str = ""


CAUSES = (
    Cause(
        r"stage3?_?.*mics|mics_",
        "MiCS sharding was removed from DeepSpeed",
        "delete the mics_* keys; zero_hpz_partition_size partitions inside the node",
        "huggingface/accelerate#3442",
    ),
    Cause(
        r"has been removed",
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
        r"has to be greater than 0",
        "train_batch_size is smaller than the number of processes",
        "raise train_batch_size, or start fewer processes",
        "deepspeedai/DeepSpeed#17",
    ),
    Cause(
        r"not supported between instances of 'str' and '(int|float)'|got auto|Got: auto",
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
        r"fp16 is not supported|Type fp16",
        "this device does not compute in fp16",
        "use bf16, or fp32; fp16 needs a GPU",
        "deepspeedai/DeepSpeed#6723",
    ),
    Cause(
        r"bfloat16 and fp16 modes cannot be simultaneously enabled",
        "both precisions are switched on",
        "keep one of bf16 and fp16",
    ),
    Cause(
        r"requires the cpu_adam op|CPUAdam|ds_opt_adam",
        "optimizer offload compiles DeepSpeedCPUAdam, and the compilation failed",
        "install g++, ninja and Python's headers in the training environment; the log holds the compiler's error",
        "deepspeedai/DeepSpeed#1846",
    ),
    Cause(
        r"async_io",
        "NVMe offload needs libaio's headers",
        "install libaio-dev, then run again",
        "deepspeedai/DeepSpeed#2503",
    ),
    Cause(
        r"ninja not being installed|Ninja is required|JIT load|Error building extension",
        "a DeepSpeed operator could not be compiled",
        "install g++ and ninja in the training environment",
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
        r"buffer size .*[\d,]+|More elements \d+ than buffer size",
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
    ),
    Cause(
        r"need to assign use_cpu",
        "without a GPU the Trainer wants to be told",
        "add --use_cpu to the script's arguments",
    ),
    Cause(
        r"^ModuleNotFoundError",
        "the training environment lacks it",
        "install it there, or name the environment that has it with --python",
    ),
    Cause(
        r"was not reachable via ssh|^SSHError|Permission denied \(publickey|Host key verification failed",
        "a host of the hostfile cannot be reached",
        "make `ssh HOST true` work without a password or a question, from this machine",
    ),
    Cause(
        r"EADDRINUSE|[Aa]ddress already in use",
        "another process took the port",
        "run it again: each run draws another port",
    ),
    Cause(
        r"is not divisible by",
        "a partition or group size does not divide the number of processes",
        "use a divisor of the number of processes",
        "deepspeedai/DeepSpeed#4386",
    ),
)

UNEXPLAINED = "the log holds the whole traceback"
_OUTCOME_CURES = {
    "oom": "a smaller micro batch, activation checkpointing, a higher ZeRO stage or offload; `zeroconf generate` "
    "ranks them",
    "host-oom": "less offload, fewer processes per node or more host memory; offload needs about 16 to 18 bytes "
    "per parameter and node (deepspeedai/DeepSpeed#4239)",
    "hang": "raise --timeout or lower --seq-len if it was only slow; else look at the ranks' last phases in the log",
    "no-steps": "the Trainer needs --deepspeed FILE among the script's arguments and enough data for a step, an "
    "Accelerate script --launcher accelerate with CONFIG",
}
_KILLED = re.compile(
    r"exitcode\s*:\s*-9\b|return code = (?:-9|137)\b|Signal 9 \(SIGKILL\)|exit code 137\b|oom-kill event"
)
_SIGKILLED = 128 + 9  # guard.py's code for it
_LOST_PEER = re.compile(
    r"closed by peer|reset by peer|Broken pipe|Connection refused|remote process exited|NCCL.*(abort|remote)|"
    r"DistNetworkError|Socket Timeout"
)
# pdsh puts the host's name before each line
_ERROR_LINE = re.compile(r"^(?:[^\s:]+: )?(?:\[rank\d+\]:\s*)?([A-Za-z_.]*(?:Error|Exception)\b.*)$", re.MULTILINE)
_SRUN_REFUSES = re.compile(r"^(?:srun|slurmstepd): (error: .*)$", re.MULTILINE)


class Verdict(NamedTuple):
    """How a run ended. ``explanation`` and ``cure`` are empty when it fits."""

    outcome: Outcome
    explanation: str = ""
    cure: str = ""


def lost_peer(message: str) -> bool:
    """Whether an error only says that another rank is gone."""
    return _LOST_PEER.search(message) is not None


def last_error(log: str) -> str:
    """The last line of a log that names an error, or by which srun refuses; empty when there is none."""
    lines: list[str] = _ERROR_LINE.findall(log) or _SRUN_REFUSES.findall(log)
    return lines[-1] if lines else ""


def first_failure(records: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The failed rank that failed by itself, the earliest first; those that only lost a peer come last."""
    failed = [record for record in records if record.get("state") == "failed"]
    return min(failed, key=lambda record: (lost_peer(record["message"]), record["failed_at"]), default=None)


def judge(
    records: Sequence[Mapping[str, Any]],
    *,
    num_processes: int,
    timed_out: bool,
    timeout_seconds: float,
    log: str,
    exit_code: int | None = None,
) -> Verdict:
    """The verdict on a run, from the ranks' records, the log's text, and the exit code of what was started."""
    if len(records) == num_processes and all(record["state"] == "done" for record in records):
        return Verdict("fits")
    failed = first_failure(records)
    killed = _KILLED.search(log) or (exit_code == _SIGKILLED)
    if killed and (failed is None or lost_peer(failed["message"])):
        message = "a rank was killed (SIGKILL), as the kernel does when host memory runs out"
        return Verdict("host-oom", message, _OUTCOME_CURES["host-oom"])
    if failed is not None and failed["outcome"] in {"unsupported", "no-steps"}:
        return Verdict(failed["outcome"], failed["message"], _OUTCOME_CURES.get(failed["outcome"], ""))
    if failed is not None:
        step = f" of step {failed['step']}" if failed["step"] else ""
        where = f"rank {failed['rank']} failed in {failed['phase']}{step}"
        return explain(failed["outcome"], failed["message"], where)
    if timed_out:
        return _out_of_time(records, timeout_seconds)
    line = last_error(log)
    seen = ", ".join(_last_seen(record) for record in records) or "no rank had started"
    return explain("crash", line or f"ended with exit code {exit_code}; {seen}", "no rank left a result")


def _out_of_time(records: Sequence[Mapping[str, Any]], timeout_seconds: float) -> Verdict:
    """Slow when steps were done, else hung as far as anyone can see."""
    seen = ", ".join(_last_seen(record) for record in records) or "no rank had started"
    if records and all(record["phase"] == "the script" for record in records):
        why = f"no end after {timeout_seconds:g} s, and deepspeed.initialize had not been called"
        return Verdict("hang", why, f"raise --timeout if it was still loading; else {_OUTCOME_CURES['no-steps']}")
    times = max((list(record.get("step_seconds", ())) for record in records), key=len, default=[])
    if times:
        pace = f"{len(times)} done at {sum(times) / len(times):.3g} s each; {seen}"
        cure = "it was slow, not hung: raise --timeout, or lower --steps, --seq-len or the accumulation"
        return Verdict("hang", f"no end after {timeout_seconds:g} s: optimizer steps {pace}", cure)
    return Verdict("hang", f"no end after {timeout_seconds:g} s: {seen}", _OUTCOME_CURES["hang"])


def explain(outcome: Outcome, message: str, where: str) -> Verdict:
    """One line about a failure, with its known cause and cure."""
    line = " ".join(message.split())
    known = next((cause for cause in CAUSES if re.search(cause.pattern, line)), None)
    if outcome in _OUTCOME_CURES or known is None:
        return Verdict(outcome, f"{where}: {line}", _OUTCOME_CURES.get(outcome, UNEXPLAINED))
    issue = f" ({known.issue})" if known.issue else ""
    return Verdict(outcome, f"{where}: {line}; {known.why}{issue}", known.cure)


def _last_seen(record: Mapping[str, Any]) -> str:
    step = f" of step {record['step']}" if record.get("step") else ""
    return f"rank {record['rank']} was in {record['phase']}{step}"
