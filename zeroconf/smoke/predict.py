"""A run's memory beside the estimate's, and beside the card it is meant for."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from zeroconf.errors import InputError
from zeroconf.estimate.estimate import estimate
from zeroconf.inputs.versions import parse_version
from zeroconf.plan.limits import PARAMETER_STAGE
from zeroconf.plan.ran import workload_and_plan
from zeroconf.types import Cluster, Estimate, Gpu, Link, ModelSpec, Moment, Plan, Versions
from zeroconf.units import gib

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.smoke.job import SmokeJob
    from zeroconf.smoke.measured import SmokeResult


_PROCESSORS = "cpu"
_ONE_STEP = "one step, in which the optimizer's states may only be made: from the second on a peak can be higher"
_WITHOUT_ACTIVATIONS = ("init", "step")
_RECOMPUTE = "--activation-checkpointing full, if that is how the job runs"


def with_prediction(
    result: SmokeResult, job: SmokeJob, file: ConfigFile, model: ModelSpec, cluster: Cluster, trainable: int | None
) -> SmokeResult:
    """The result with what the estimate expected of the same shapes, and the relative error of its peak.

    ``file`` is what really ran, ``trainable`` the number of parameters that train when not all do. A peak of one step
    is beside nothing: the optimizer's states may come with it, and are whole from the second step's forward on.
    """
    predicted = estimate(model, cluster, *workload_and_plan(job, file, trainable), versions_of(result))
    measured = peak_bytes(result) if result.outcome == "fits" and job.steps > 1 else 0
    expected = predicted.gpu.peak_allocated_bytes - predicted.gpu.peak.overhead
    error = expected / measured - 1 if measured else None
    if job.steps == 1:
        result = replace(result, substitutions=(*result.substitutions, _ONE_STEP))
    return replace(result, predicted=predicted, named_hardware=cluster.name != _PROCESSORS, relative_error=error)


def processor_bytes(job: SmokeJob, file: ConfigFile, model: ModelSpec, trainable: int | None) -> int:
    """What the job's processes would need together on processors, where the card's share is host memory, too."""
    cost = estimate(model, processors(job.world_size), *workload_and_plan(job, file, trainable), Versions())
    each = cost.gpu.peak_allocated_bytes - cost.gpu.peak.overhead + cost.host.peak_bytes // job.world_size
    return each * job.num_processes


def versions_of(result: SmokeResult) -> Versions:
    """The releases that the run's environment has; the newest known where it does not say."""
    installed = result.environment.get("deepspeed")
    try:
        return replace(Versions(), deepspeed=parse_version(str(installed), "deepspeed version"))
    except InputError:
        return Versions()


def fall_back(result: SmokeResult) -> SmokeResult:
    """What the estimate says, where the worker knows that a dry run cannot say it (worker/dry_run.py: cannot_run)."""
    if result.outcome != "unsupported":
        return result
    why = f"a dry run cannot run this: {result.explanation}; what follows is the estimate"
    return replace(result, outcome="fits", ranks=(), relative_error=None, explanation=why, cure="")


def peak_bytes(result: SmokeResult) -> int:
    """The highest peak of any rank, 0 without ranks."""
    return max((rank.peak_allocated_bytes for rank in result.ranks), default=0)


def against_card(result: SmokeResult, cluster: Cluster | None) -> SmokeResult:
    """A dry run's verdict: whether its peak and what PyTorch does not count (context, NCCL) go on the card.

    And whether the host memory of all of a node's ranks goes into the node, where it is known how much that has.
    """
    if result.outcome != "fits" or result.predicted is None:
        return result
    if cluster is None:
        why = "the peak was compared with no card: --hardware 8xA100-80GB names one"
        return replace(result, outcome="ran", explanation=_both(result.explanation, why))
    gpu, overhead = cluster.gpu, result.predicted.gpu.peak.overhead
    phases = result.ranks[0].phases if result.ranks else _predicted_phases(result.predicted)
    needed = max(phases.values()) + overhead
    sizes = f"{gib(needed)} of the {gib(gpu.memory_bytes)} of {gpu.name}, {gib(overhead)} of it context and NCCL"
    other = "`zeroconf generate` with the same model and hardware finds what fits, or what would make it fit"
    if needed <= gpu.memory_bytes:
        fits = _both(result.explanation, f"the peak takes {sizes}")
        host, limit = _host_bytes(result, result.predicted, cluster), cluster.host_memory_bytes
        ranks = f"the {cluster.gpus_per_node} ranks of a node need {gib(host)} of host memory"
        if limit is not None and host > limit:
            why = f"{fits}, but {ranks}, and it has {gib(limit)}"
            return replace(result, outcome="does-not-fit", explanation=why, cure=other)
        # what every job needs of its host is nothing to warn of
        is_open = limit is None and result.predicted.plan.offload != "none"
        unknown = f"; {ranks}, and how much it has is not known (an instance or inventory says it)" if is_open else ""
        return replace(result, explanation=f"{fits}{unknown}")
    phase = max(phases, key=lambda name: phases[name])
    return replace(
        result,
        outcome="does-not-fit",
        explanation=_both(result.explanation, f"the peak, in {phase}, needs {sizes}"),
        cure="; else ".join([*_lighter(phase, result.predicted.plan), other]),
    )


def _lighter(phase: str, plan: Plan) -> list[str]:
    """What takes less of the card in that phase: of activations, where there are some, else of the states."""
    if phase not in _WITHOUT_ACTIVATIONS:
        return [] if plan.activation_checkpointing else [_RECOMPUTE]
    if plan.stage == 0:
        return ["zero_optimization.stage 1 or higher, which partitions the optimizer's states"]
    offload = ["zero_optimization.offload_optimizer"] if plan.offload_optimizer == "none" else []
    higher = [f"zero_optimization.stage {PARAMETER_STAGE}"] if plan.stage < PARAMETER_STAGE else []
    return [" or ".join([*offload, *higher])] if offload or higher else []


def _host_bytes(result: SmokeResult, predicted: Estimate, cluster: Cluster) -> int:
    """What a node's ranks need of host memory; rank 0 stands for all of them."""
    return result.ranks[0].host_peak_bytes * cluster.gpus_per_node if result.ranks else predicted.host.peak_bytes


def _predicted_phases(predicted: Estimate) -> Mapping[Moment, int]:
    return {moment: parts.total - parts.overhead for moment, parts in predicted.gpu.moments.items()}


def _both(first: str, second: str) -> str:
    return f"{first}: {second}" if first else second


def processors(num_processes: int) -> Cluster:
    """This machine's processors as a cluster, for predicting a run on them: host memory shared by the ranks.

    Rates do not matter for memory; they are set to 1, and what follows from them is not shown (result.py: to_json).
    """
    pages, page_bytes = (os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE"))
    link = Link(
        name="host memory",
        kind="pcie",
        bandwidth_bytes_per_second=1.0,
        low_bandwidth_bytes_per_second=1.0,
        latency_seconds=0.0,
        source="this machine",
    )
    processor = Gpu(
        name="cpu",
        memory_bytes=pages * page_bytes // num_processes,
        bf16=True,
        half_flops_per_second=1.0,
        single_flops_per_second=1.0,
        memory_bandwidth_bytes_per_second=1.0,
        max_efficiency=1.0,
        host_link_bytes_per_second=1.0,
        intra_node=link,
        source="this machine",
    )
    return Cluster(name=_PROCESSORS, num_nodes=1, gpus_per_node=num_processes, gpu=processor, intra_node=link)
