"""How many GPUs a model needs, per stage, when only a GPU type is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zeroconf.plan.choose import decide
from zeroconf.units import round_up

if TYPE_CHECKING:
    from zeroconf.types import Candidate, Facts, Link

_NODE: Final = 8
_NUMBERS: Final = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpusNeeded:
    """The smallest number that is comfortable at one stage; ``candidate`` is None when no number is."""

    stage: int
    num_gpus: int | None
    candidate: Candidate | None


def gpus_needed(facts: Facts, network: Link) -> tuple[GpusNeeded, ...]:
    """Per stage the smallest number of GPUs, in nodes of 8 joined by ``network``, that fits comfortably.

    ``facts.cluster`` is one GPU. The global batch is rounded up to a multiple of the GPUs.
    """
    return tuple(_smallest(facts, network, stage) for stage in range(4))


def with_gpus(facts: Facts, number: int, network: Link) -> Facts:
    """The same facts on ``number`` GPUs in nodes of 8."""
    nodes = max(1, number // _NODE)
    cluster = replace(
        facts.cluster,
        name=f"{number}x{facts.cluster.gpu.name}",
        num_nodes=nodes,
        gpus_per_node=number // nodes,
        network=network if nodes > 1 else None,
    )
    batch = round_up(facts.workload.global_batch_size, number)
    return replace(facts, cluster=cluster, workload=replace(facts.workload, global_batch_size=batch))


def _smallest(facts: Facts, network: Link, stage: int) -> GpusNeeded:
    pinned = replace(facts, workload=replace(facts.workload, zero_stage=stage, offload="none"))
    # stage 0 partitions nothing, so more GPUs free nothing
    for number in _NUMBERS if stage else (1,):
        chosen = decide(with_gpus(pinned, number, network)).chosen
        if chosen is not None and chosen.estimate.verdict == "comfortable":
            return GpusNeeded(stage=stage, num_gpus=number, candidate=chosen)
    return GpusNeeded(stage=stage, num_gpus=None, candidate=None)
