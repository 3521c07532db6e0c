"""ZC401 to ZC403: the stage and its groups against the link."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zeroconf.document import edits
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.planned import set_to
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import whole
from zeroconf.units import divisors, gigabytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.edits import Fix
    from zeroconf.rules.facts import DsConfig
    from zeroconf.rules.planned import Planned
    from zeroconf.types import Candidate, Cluster

_HPZ = "zero_hpz_partition_size"
# the stages that reduce gradients to their owners
_REDUCING = (1, 2)


class _Other(NamedTuple):
    """The file's plan with another stage, or partitioned inside the node."""

    candidate: Candidate
    fix: Fix | None

    @property
    def seconds(self) -> float:
        """Of one optimizer step."""
        return self.candidate.estimate.step.total_seconds


def faster_stage(planned: Planned) -> _Other | None:
    """The best of the lower stages, and of stage 3 with hpZ, if the file's plan is slower beyond doubt."""
    of_file = planned.of_file
    mine = _with_full_buckets(planned)
    others = [
        other
        for other in _others(planned)
        if of_file.is_surely_slower_than(other.candidate, mine=mine) and _link_is_to_blame(mine, other.candidate)
    ]
    best = of_file.best_of(other.candidate for other in others)
    return next((other for other in others if other.candidate is best), None)


def _link_is_to_blame(mine: Candidate, other: Candidate) -> bool:
    """Whether most of the time that ``other`` saves is communication, not stage 3's fetches on the host."""
    slow, fast = mine.estimate.step, other.estimate.step
    saved = slow.exposed_communication_seconds - fast.exposed_communication_seconds
    return 2 * saved > slow.total_seconds - fast.total_seconds


def _with_full_buckets(planned: Planned) -> Candidate:
    """The file's plan with buckets that fill the link, where these fit and help: what they cost is ZC406's to tell."""
    of_file = planned.of_file
    full = max(planned.plan.reduce_bucket_size, of_file.efficient_bucket)
    other = of_file.alternative(reduce_bucket_size=full)
    return other if other is not None and of_file.is_no_slower(other) else of_file.candidate


def _others(planned: Planned) -> Iterator[_Other]:
    plan, cluster, of_file = planned.plan, planned.facts.cluster, planned.of_file
    if cluster.num_gpus == 1:
        return
    if plan.stage in _REDUCING and plan.multi_rank_bucket_allreduce:
        found = of_file.alternative(multi_rank_bucket_allreduce=False)
        if found is not None:
            yield _Other(found, set_to(planned, multi_rank=False))
    if plan.offload in ("none", "optimizer") and of_file.may_vary("zero_stage"):
        for stage in range(0 if plan.offload == "none" else 1, plan.stage):
            yield from _at_stage(planned, stage)
    inside = cluster.gpus_per_node
    if (
        plan.stage == 3
        and plan.zero_hpz_partition_size == 1
        and cluster.num_nodes > 1 < inside
        and plan.offload == "none"
    ):
        found = of_file.alternative(zero_hpz_partition_size=inside)
        if found is not None:
            yield _Other(found, set_to(planned, hpz=inside))


def _at_stage(planned: Planned, stage: int) -> Iterator[_Other]:
    """The plan at a lower stage, in as large micro batches as fit, reduced as the file says and to each owner."""
    plan, of_file = planned.plan, planned.of_file
    for times in divisors(plan.micro_batch_size) if _may_split(planned) else (1,):
        micro, steps = plan.micro_batch_size // times, plan.gradient_accumulation_steps * times
        split = {"micro_batch_size": micro, "gradient_accumulation_steps": steps}
        changes = {"stage": stage, "zero_hpz_partition_size": 1, **split}
        found = of_file.alternative(**changes)
        if found is None:
            continue
        written: dict[str, int] = {"stage": stage} | ({"micro": micro, "steps": steps} if times > 1 else {})
        yield _Other(found, set_to(planned, **written))
        if stage in _REDUCING and plan.multi_rank_bucket_allreduce:
            other = of_file.alternative(**changes, multi_rank_bucket_allreduce=False)
            if other is not None:
                yield _Other(other, set_to(planned, **written, multi_rank=False))
        return


def _may_split(planned: Planned) -> bool:
    return planned.of_file.may_vary("micro_batch_size") and planned.of_file.may_vary("gradient_accumulation")


@rule("ZC401", "stage-too-slow-for-link", severity="warning", confidence="medium")
def stage_too_slow_for_link(timed: Planned) -> Iterator[Problem]:
    """The stage sends more than the link carries: another one is faster for the same batch.

    Stages 0 and 1 communicate once per optimizer step, stage 2 reduces gradients and stage 3 also gathers weights in
    every micro step (runtime/zero/stage_1_and_2.py, runtime/zero/partitioned_param_coordinator.py; DeepSpeed#5770,
    DeepSpeed#6793). Each plan's collectives are counted as DeepSpeed sends them, and timed on this cluster's link. Told
    only where the low end of the file's predicted time is above the high end of the other's and it takes 1.2 times as
    long, or where the file takes 1.5 times as long at either end. Nothing is changed but the stage, the split of the
    same batch where it would not fit otherwise, and the key that sends less at the same stage (zero_hpz_partition_size,
    a partition inside the node; use_multi_rank_bucket_allreduce false, a reduce to each owner); and the other fits as
    well, its activations computed again if nobody says that they are not.

    Example:
        ```json model=llama-3.2-1b hardware=8x1xA100-80GB network=1gbe seq-len=1024
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 16, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3}}
        ```

    Use instead:
        ```json model=llama-3.2-1b hardware=8x1xA100-80GB network=1gbe seq-len=1024
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 16, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 0}}
        ```
    """
    other = faster_stage(timed)
    if other is None:
        return
    words, mine = timed.of_file.words, timed.of_file.candidate
    ratio, better = mine.estimate.step.total_seconds / other.seconds, other.candidate
    yield Problem(
        f"{words.title(better)} is {ratio:.1f}x as fast: {words.time(better)}, sending {words.sent(better)} per GPU and"
        f" step; {words.title(mine)} takes {words.time(mine)} and sends {words.sent(mine)} ({words.traffic(mine)})"
        f"{timed.of_file.instead_of(better)}",
        timed.path("stage"),
        fix=other.fix,
    )


@rule("ZC402", "needless-stage-3", severity="info", confidence="medium")
def needless_stage_3(timed: Planned) -> Iterator[Problem]:
    """Stage 3 partitions weights that fit whole, and is no faster for it.

    A higher stage saves memory, not time. Where the model is under stage3_max_live_parameters and nothing accumulates,
    stage 3 sends about what stage 1 does (runtime/zero/partitioned_param_coordinator.py keeps what was gathered), so
    its cost is many small collectives: latency, not bytes; of a small model memory too, where buffers and the layers
    gathered beside their partitions take more than partitioning saves. Told where a lower stage fits comfortably with
    the same batch and takes no longer.

    Example:
        ```json model=pythia-1b hardware=8x1xA100-80GB network=1gbe seq-len=1024
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3}}
        ```

    Use instead:
        ```json model=pythia-1b hardware=8x1xA100-80GB network=1gbe seq-len=1024
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 1}}
        ```
    """
    plan, of_file = timed.plan, timed.of_file
    is_plain = plan.stage == 3 and plan.offload == "none" and timed.facts.cluster.num_gpus > 1
    if not is_plain or not of_file.may_vary("zero_stage") or faster_stage(timed) is not None:
        return
    for stage in (0, 1):
        other = of_file.alternative(stage=stage, zero_hpz_partition_size=1)
        if other is not None and other.estimate.verdict == "comfortable" and of_file.is_no_slower(other):
            words, mine = of_file.words, of_file.candidate
            yield Problem(
                f"the weights fit whole: stage {stage} needs {words.memory(other)} and takes {words.time(other)},"
                f" stage 3 {words.memory(mine)} and {words.time(mine)}; {_bytes_or_latency(timed, other)}"
                f"{of_file.instead}",
                timed.path("stage"),
                fix=set_to(timed, stage=stage),
            )
            return


def _bytes_or_latency(planned: Planned, other: Candidate) -> str:
    """What stage 3 costs here: bytes, or only calls, and memory where it takes more."""
    mine = planned.cost.traffic
    sent, instead = mine.bytes_per_gpu_per_step, other.estimate.traffic.bytes_per_gpu_per_step
    calls, others = (sum(one.count for one in traffic.per_collective) for traffic in (mine, other.estimate.traffic))
    amounts = f"{gigabytes(sent)} against {gigabytes(instead)}, {calls:,} against {others:,} calls per GPU and step"
    if sent > instead * _ABOUT_AS_MUCH:
        return f"it sends {amounts}"
    peak, lower = (one.gpu.peak_allocated_bytes for one in (planned.cost, other.estimate))
    what = "memory and latency" if peak > lower else "latency"
    return f"needless: it costs {what}, {'not' if sent <= instead * _THE_SAME else 'hardly more'} bytes ({amounts})"


# times the bytes that count as the same, and as hardly more
_THE_SAME = 1.01
_ABOUT_AS_MUCH = 1.1


@rule("ZC403", "partition-across-nodes", severity="warning")
def partition_across_nodes(config: DsConfig, cluster: Cluster) -> Iterator[Problem]:
    """Groups of zero_hpz_partition_size GPUs reach over nodes.

    The second copy of the weights is there so that gathers stay inside a node; groups are consecutive ranks
    (utils/groups.py, _create_zero_param_parallel_group; DeepSpeed#4386). With a size that does not divide a node's GPUs
    some groups, or all, gather over the network after all, and the copy's memory is paid for nothing.

    Example:
        ```json hardware=4x4xA100-80GB
        {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
        ```

    Use instead:
        ```json hardware=4x4xA100-80GB
        {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 4}}
        ```
    """
    size, inside = whole(config, "zero_optimization", _HPZ), cluster.gpus_per_node
    if config.stage != 3 or size is None or not 1 < size <= cluster.num_gpus or cluster.num_gpus % size:
        return
    if cluster.num_nodes > 1 < inside and inside % size:
        path = config.path("zero_optimization", _HPZ)
        yield Problem(
            f"groups of {size} GPUs reach over nodes of {inside} ({cluster.name}); {inside} keeps gathers inside",
            path,
            fix=cure(f"Write {inside}", edits.replace(config.document, path, inside), safe=False),
        )
