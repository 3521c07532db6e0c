"""Every plan that is worth estimating for the given facts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from zeroconf.choices import Offload
from zeroconf.errors import InputError
from zeroconf.inputs.ds_keys import script_variant
from zeroconf.keys import AUTOTP_AT_STAGE_3_SINCE
from zeroconf.plan.buckets import bucket_profiles, saves_traffic
from zeroconf.plan.faults import may_overlap
from zeroconf.types import Device, Plan
from zeroconf.units import divisors, ranks_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zeroconf.plan.buckets import Buckets
    from zeroconf.types import Cluster, Facts, OptimizerVariant, Workload

OFFLOAD_LEVELS: Final = get_args(Offload)
_DEVICES: Final[dict[Offload, tuple[Device, Device]]] = {
    "none": ("none", "none"),
    "optimizer": ("cpu", "none"),
    "all": ("cpu", "cpu"),
    "nvme": ("nvme", "cpu"),
}


def batch_splits(workload: Workload, data_parallel: int) -> list[tuple[int, int]]:
    """(micro batch size, accumulation steps) whose product with the GPUs is the global batch, smallest first.

    16 sequences per GPU: (1, 16), (2, 8), (4, 4), (8, 2), (16, 1).

    Raises:
        InputError: the global batch cannot be split over the GPUs as pinned.
    """
    ranks = f"{data_parallel} {ranks_name(workload.ranks_per_sample)}"
    per_gpu, rest = divmod(workload.global_batch_size, data_parallel)
    if rest or per_gpu == 0:
        lower, upper = per_gpu * data_parallel, (per_gpu + 1) * data_parallel
        nearest = f"{lower} or {upper}" if lower else str(upper)
        msg = (
            f"global batch size {workload.global_batch_size} is not a multiple of {ranks}; "
            f"use --global-batch-size {nearest}"
        )
        raise InputError(msg)
    micro, steps = workload.micro_batch_size, workload.gradient_accumulation_steps
    splits = [
        (size, per_gpu // size)
        for size in _sizes(per_gpu, micro, steps)
        if per_gpu % size == 0 and steps in (None, per_gpu // size)
    ]
    if not splits:
        msg = (
            f"{per_gpu} sequences per GPU and step cannot be split into the given micro batch size and accumulation; "
            f"their product with {ranks} must be the global batch size {workload.global_batch_size}"
        )
        raise InputError(msg)
    return splits


def _sizes(per_gpu: int, micro: int | None, steps: int | None) -> Iterable[int]:
    """Micro batch sizes to try, smallest first: what is pinned, or all that memory may allow."""
    if micro is not None:
        return (micro,)
    if steps is not None:
        return (max(1, per_gpu // steps),)
    return divisors(per_gpu)


def offloads(cluster: Cluster, workload: Workload, stage: int) -> list[Offload]:
    """The offload levels that exist at a stage; NVMe only where a node has one.

    Accelerate replaces bitsandbytes' optimizers under offload (map_pytorch_optim_to_deepspeed), and packed weights stay
    on the GPU.
    """
    levels: list[Offload] = ["none"]
    if stage >= 1 and not workload.optimizer_on_gpu:
        levels.append("optimizer")
    if stage == 3 and not workload.optimizer_on_gpu and not workload.quantize:
        levels.append("all")
        if cluster.nvme is not None:
            levels.append("nvme")
    return [level for level in levels if workload.offload in (None, level)]


class Family(NamedTuple):
    """Plans that differ in their batch split alone, the smallest micro batch first."""

    any_split: Plan
    splits: list[tuple[int, int]]

    def plan(self, index: int) -> Plan:
        """The plan of one split."""
        micro, steps = self.splits[index]
        return replace(self.any_split, micro_batch_size=micro, gradient_accumulation_steps=steps)


def plans(facts: Facts) -> Iterator[Plan]:
    """All candidates, in order of simplicity for equal cost."""
    for family in plan_families(facts):
        yield from map(family.plan, range(len(family.splits)))


def plan_families(facts: Facts) -> Iterator[Family]:
    """All candidates, family by family."""
    workload, cluster = facts.workload, facts.cluster
    splits = batch_splits(workload, facts.data_parallel_size)
    pinned = workload.activation_checkpointing
    checkpointing = {"none": (False,), "full": (True,), "auto": (False, True)}[pinned]
    given = facts.given or Plan(stage=0, micro_batch_size=1, gradient_accumulation_steps=1)
    for stage in range(4):
        if workload.zero_stage not in (None, stage) or is_refused(facts, stage):
            continue
        started = _at_stage(facts, given, stage)
        for buckets in bucket_profiles(facts.model, cluster, workload, stage):
            for level in offloads(cluster, workload, stage):
                for traffic_keys in _traffic_keys(cluster, stage, level):
                    for recompute in checkpointing:
                        plan = _plan(started, buckets, level, traffic_keys, recompute)
                        yield Family(replace(plan, optimizer_variant=_variant(facts, given, level)), splits)


def _variant(facts: Facts, given: Plan, level: Offload) -> OptimizerVariant | None:
    """The optimizer where it is not DeepSpeed's own: the base file's, or the script's AdamW, which is PyTorch's."""
    if given.optimizer_variant is None and facts.script_builds_optimizer(offloaded=level != "none"):
        return script_variant(facts.workload.optimizer, offloaded=level != "none")
    return given.optimizer_variant


def is_refused(facts: Facts, stage: int) -> bool:
    """Whether this DeepSpeed does not start at the stage: tensor parallelism at stage 3 before 0.19.4.

    Raises:
        InputError: the stage was asked for, or an offload that only it has.
    """
    workload = facts.workload
    if stage < 3 or workload.tensor_parallel_size == 1 or facts.versions.deepspeed >= AUTOTP_AT_STAGE_3_SINCE:
        return False
    if workload.zero_stage == stage or workload.offload in ("all", "nvme"):
        cure = "--zero-stage 2" if workload.zero_stage == stage else "--offload optimizer"
        msg = f"tensor_parallel.autotp_size at stage 3 needs DeepSpeed 0.19.4; use {cure} or a newer DeepSpeed"
        raise InputError(msg)
    return True


def _traffic_keys(cluster: Cluster, stage: int, level: Offload) -> list[tuple[int, bool]]:
    """(hpZ group, multi-rank all-reduce): alternatives that change what is sent.

    Over NVLink the default is kept: what a reduce per owner saves there is small and unmeasured. hpZ partitions inside
    a node; with offload it is known to break training (DeepSpeed#6926).
    """
    default = (1, True)
    if not saves_traffic(cluster) or stage == 0:
        return [default]
    if stage < 3:
        return [default, (1, False)]
    inside = cluster.gpus_per_node
    return [default, (inside, True)] if cluster.num_nodes > 1 and inside > 1 and level == "none" else [default]


def _at_stage(facts: Facts, given: Plan, stage: int) -> Plan:
    """A base file's plan at a stage, without what does harm there.

    Without reduce_scatter stages 2 and 3 all-reduce gradients of which a rank keeps its shard; Muon wants them whole
    (ZC259).
    """
    scatters = given.reduce_scatter or (stage >= 2 and given.optimizer_variant != "muon")
    overlaps = may_overlap(facts.versions.deepspeed, stage)
    return replace(given, stage=stage, reduce_scatter=scatters, overlap_comm=overlaps)


def _plan(
    started: Plan,
    buckets: Buckets,
    level: Offload,
    traffic_keys: tuple[int, bool],
    recompute: bool,
) -> Plan:
    optimizer, param = _DEVICES[level]
    return replace(
        started,
        offload_optimizer=optimizer,
        offload_param=param,
        activation_checkpointing=recompute,
        zero_hpz_partition_size=traffic_keys[0],
        multi_rank_bucket_allreduce=traffic_keys[1],
        reduce_bucket_size=buckets.reduce_bucket_size,
        prefetch_bucket_size=buckets.prefetch_bucket_size,
        param_persistence_threshold=buckets.param_persistence_threshold,
        max_live_parameters=buckets.max_live_parameters,
        max_reuse_distance=buckets.max_reuse_distance,
        sub_group_size=buckets.sub_group_size,
    )
