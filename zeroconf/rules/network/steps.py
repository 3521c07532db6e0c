"""ZC405 and ZC406: micro steps and buckets against the link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.rules.network.stage import faster_stage
from zeroconf.rules.planned import set_to
from zeroconf.rules.registry import Problem, rule
from zeroconf.units import divisors, gigabits_per_second

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.planned import Planned
    from zeroconf.types import Candidate

# a gain of less is within what the model is off
_CLEAR_GAIN = 1.1
_STAGE_THAT_SENDS_EACH_TIME = 2


@rule("ZC405", "small-micro-batch", severity="warning", confidence="medium")
def small_micro_batch(timed: Planned) -> Iterator[Problem]:
    """Stage 2 or 3 communicates in many micro steps where fewer would fit.

    Stages 2 and 3 send in every micro step (runtime/zero/stage_1_and_2.py,
    runtime/zero/partitioned_param_coordinator.py; DeepSpeed#6793), so that the same global batch in larger micro
    batches sends less. Told where the largest one that fits comfortably is faster beyond doubt, as ZC401 has it, and no
    option pins the split. The gradients, and so the training, are the same.

    Example:
        ```json model=30B hardware=4x8xA100-80GB network=10gbe seq-len=512
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 16, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
        ```

    Use instead:
        ```json model=30B hardware=4x8xA100-80GB network=10gbe seq-len=512
        {"train_micro_batch_size_per_gpu": 16, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
        ```
    """
    other = faster_split(timed)
    if other is None:
        return
    plan, of_file = timed.plan, timed.of_file
    words, mine = of_file.words, of_file.candidate
    micro, steps = other.plan.micro_batch_size, other.plan.gradient_accumulation_steps
    yield Problem(
        f"{plan.split} micro steps take {words.time(mine)}: stage"
        f" {plan.stage} sends {words.traffic(mine)}; {micro} x {steps} fits as well ({words.memory(other)}) and takes"
        f" {words.time(other)}{of_file.instead}",
        timed.path("steps"),
    )


def faster_split(planned: Planned) -> Candidate | None:
    """The same batch in fewer micro steps, if the file's plan is slower beyond doubt and not for its stage."""
    plan, of_file = planned.plan, planned.of_file
    is_free = of_file.may_vary("micro_batch_size") and of_file.may_vary("gradient_accumulation")
    sends_each_time = plan.stage >= _STAGE_THAT_SENDS_EACH_TIME and planned.facts.cluster.num_gpus > 1
    if plan.gradient_accumulation_steps == 1 or not (is_free and sends_each_time) or faster_stage(planned):
        return None
    other = _fewest_steps(planned)
    return other if other is not None and of_file.is_surely_slower_than(other) else None


def _fewest_steps(planned: Planned) -> Candidate | None:
    """The same sequences in the largest micro batches that are comfortable; None where the file's are."""
    plan = planned.plan
    for times in divisors(plan.gradient_accumulation_steps)[:0:-1]:
        other = planned.of_file.alternative(
            micro_batch_size=plan.micro_batch_size * times,
            gradient_accumulation_steps=plan.gradient_accumulation_steps // times,
        )
        if other is not None and other.estimate.verdict == "comfortable":
            return other
    return None


@rule("ZC406", "small-reduce-bucket", severity="warning", confidence="medium")
def small_reduce_bucket(timed: Planned) -> Iterator[Problem]:
    """reduce_bucket_size is too small to fill the link.

    Each bucket is one collective, with a start-up of its own (runtime/zero/stage_1_and_2.py, runtime/zero/stage3.py).
    Where a call costs T beside its bytes, a bucket of B bytes over a link of W bytes per second uses B / (B + T x W) of
    it; T grows with the ranks, as in the step's time. Told where the bucket that reaches 95 % fits as well
    and the step is predicted more than 10 % faster with it.

    Example:
        ```json model=llama-3.2-1b hardware=8xA100-80GB seq-len=128
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 2, "reduce_bucket_size": 100000}}
        ```

    Use instead:
        ```json model=llama-3.2-1b hardware=8xA100-80GB seq-len=128
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 2, "reduce_bucket_size": 180000000}}
        ```
    """
    plan, of_file = timed.plan, timed.of_file
    if plan.stage == 0 or timed.facts.cluster.num_gpus == 1 or plan.reduce_bucket_size >= of_file.efficient_bucket:
        return
    other = of_file.alternative(reduce_bucket_size=of_file.efficient_bucket)
    mine = of_file.candidate
    if other is None or mine.estimate.step.total_seconds < _CLEAR_GAIN * other.estimate.step.total_seconds:
        return
    words, link = of_file.words, of_file.link
    share = of_file.fill_share(plan.reduce_bucket_size)
    yield Problem(
        f"buckets of {plan.reduce_bucket_size:,} elements use {share:.1%} of {link.name}"
        f" ({gigabits_per_second(link.bandwidth_bytes_per_second)}) and take {words.time(mine)};"
        f" {of_file.efficient_bucket:,} use {of_file.fill_share(of_file.efficient_bucket):.0%} and take"
        f" {words.time(other)}, {words.memory(other)}",
        timed.path("bucket"),
        fix=set_to(timed, bucket=of_file.efficient_bucket),
    )
