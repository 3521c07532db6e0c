"""How many GPUs a model needs, per stage, when only a GPU type is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zeroconf.plan.candidates import offloads
from zeroconf.plan.changes import on_cluster
from zeroconf.plan.choose import decide

if TYPE_CHECKING:
    from zeroconf.types import Candidate, Facts

_NODE: Final = 8
_NUMBERS: Final = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpusNeeded:
    """The smallest number of those tried that is comfortable at one stage; ``candidate`` is None when none is."""

    stage: int
    num_gpus: int | None
    candidate: Candidate | None


def gpus_needed(facts: Facts) -> tuple[GpusNeeded, ...]:
    """Per stage the smallest number of GPUs, in nodes of up to 8, that fits comfortably.

    Tried are 1, 2, 4, 8 and then whole nodes, the more the further apart.

    ``facts.cluster`` is the ``one`` of a GpuType: each node has its host memory and its disk, and its network joins
    them. The global batch is rounded up to a multiple of the GPUs. A pinned stage or offload is kept; without one
    nothing is offloaded.
    """
    workload = replace(facts.workload, offload=facts.workload.offload or "none")
    stages = [stage for stage in range(4) if workload.zero_stage in (None, stage)]
    stages = [stage for stage in stages if offloads(facts.cluster, workload, stage)]
    return tuple(_smallest(replace(facts, workload=workload), stage) for stage in stages)


def with_gpus(facts: Facts, number: int) -> Facts:
    """The same facts on ``number`` GPUs in nodes of up to 8."""
    nodes = max(1, number // _NODE)
    cluster = replace(
        facts.cluster,
        name=f"{number}x{facts.cluster.gpu.name}",
        num_nodes=nodes,
        gpus_per_node=number // nodes,
        network=facts.cluster.network if nodes > 1 else None,
    )
    return on_cluster(facts, cluster)


def _smallest(facts: Facts, stage: int) -> GpusNeeded:
    pinned = replace(facts, workload=replace(facts.workload, zero_stage=stage))
    # stage 0 partitions nothing, so more GPUs free nothing
    for number in _NUMBERS if stage else (1,):
        chosen = decide(with_gpus(pinned, number)).chosen
        if chosen is not None and chosen.estimate.verdict == "comfortable":
            return GpusNeeded(stage=stage, num_gpus=number, candidate=chosen)
    return GpusNeeded(stage=stage, num_gpus=None, candidate=None)
