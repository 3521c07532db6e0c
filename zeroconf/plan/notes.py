"""What the user should see beside a plan, or beside the cures where none fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.units import gib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroconf.types import Candidate, Estimate, Facts


def notes(facts: Facts, chosen: Candidate | None, searched: Sequence[Candidate]) -> tuple[str, ...]:
    """Assumptions, what decides the memory, and what was not searched."""
    found = [*facts.model.assumptions, *facts.cluster.assumptions, *facts.workload.assumptions]
    found += _of_plan(facts, chosen) if chosen else _where_nothing_fits(facts, searched)
    work = facts.workload
    if work.sequence_parallel_size > 1:
        found.append(
            "sequence_parallel_size switches nothing on by itself: the script gives Accelerate or the Trainer a "
            f'ParallelismConfig(sp_backend="deepspeed", sp_size={work.sequence_parallel_size}), or '
            "deepspeed.initialize the mpu of UlyssesSPAttentionHF.register_with_transformers"
        )
    others = "tensor and sequence parallelism" if work.ranks_per_sample == 1 else "other sizes of what the base splits"
    found.append(f"not searched: pipeline parallelism, {others}")
    return tuple(found)


def is_loading(cost: Estimate, facts: Facts) -> bool:
    """Whether loading packed weights is the peak."""
    return facts.workload.quantize is not None and cost.gpu.peak_moment == "init"


def _of_plan(facts: Facts, chosen: Candidate) -> list[str]:
    found = []
    if chosen.plan.offload != "none" and facts.cluster.host_memory_bytes is None:
        need = gib(chosen.estimate.host.peak_bytes)
        found.append(f"host memory is not known; the plan needs {need} per node (--host-memory checks it)")
    if chosen.estimate.step.communication_seconds > 0.5 * chosen.estimate.step.total_seconds:
        share = chosen.estimate.step.communication_seconds / chosen.estimate.step.total_seconds
        found.append(
            f"communication takes {share:.0%} of the step: a larger global batch (--global-batch-size) spreads it over "
            "more samples"
        )
    return found


def _where_nothing_fits(facts: Facts, searched: Sequence[Candidate]) -> list[str]:
    found = []
    if facts.cluster.host_memory_bytes is None:
        limit = gib(facts.cluster.host_limit_bytes / facts.cluster.gpus_per_node, 0)
        found.append(
            f"host memory is not known: up to {limit} for each GPU of a node is taken to be there, the most that such "
            "nodes have (--host-memory says otherwise)"
        )
    if facts.workload.quantize is not None:
        loading = gib(min(candidate.estimate.gpu.moments["init"].total for candidate in searched))
        found.append(
            f"packed weights: every GPU loads the whole model before the engine partitions it, and peft's "
            "prepare_model_for_kbit_training turns what is not packed (embeddings, output matrix, norms) into fp32, "
            f"{loading} at every stage; they stay on the GPU, so no parameters are offloaded"
        )
    return found
