"""What one GPU sends in one optimizer step, as DeepSpeed's defaults send it.

DeepSpeed 0.19.8, read in the modules named below and logged from the real engine:

* stage 0 all-reduces all gradients once per step (engine.py: buffered_allreduce_fallback);
* stages 1 and 2 all-reduce each bucket even with ``reduce_scatter`` (stage_1_and_2.py: allreduce_and_scatter,
  ``use_multi_rank_bucket_allreduce``; false sends a reduce to each owner), then all-gather the updated
  weights. Stage 1 reduces once per step, stage 2 in every micro step;
* stage 3 all-gathers for forward and, what is no longer gathered, for backward, and reduce-scatters, all in
  every micro step (partitioned_param_coordinator.py); checkpointing adds no third gather while prefetching;
  hpZ gathers over all ranks once per step and inside the node otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from zeroconf.estimate.links import call_seconds, job_link
from zeroconf.estimate.rules_of_thumb import traffic_elements
from zeroconf.estimate.stage_0 import STAGE_0_BUCKET
from zeroconf.types import Cluster, Collective, ModelSpec, Plan, Traffic
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from zeroconf.estimate.sizes import Sizes

Kind = Literal["all-reduce", "all-gather", "reduce-scatter", "reduce"]

# calls of `reduce` per rank and bucket pass beyond the buckets themselves (logged: 20 calls for 8 buckets, N = 8)
_REDUCE_CALLS_PER_RANK: Final = 1.5


def ring_factor(kind: Kind, world_size: int) -> float:
    """Elements that one rank sends per element of the tensor, in a ring of ``world_size``.

    All-reduce 2 (N-1)/N, the others (N-1)/N: for 8 ranks 1.75 and 0.875.
    """
    share = (world_size - 1) / world_size
    return 2 * share if kind == "all-reduce" else share


def traffic(model: ModelSpec, cluster: Cluster, plan: Plan, sizes: Sizes) -> Traffic:
    """All collectives of one optimizer step. Empty on one GPU."""
    collectives: list[Collective] = []
    if sizes.world_size > 1:
        ring = _Ring(cluster, sizes.element_bytes)
        if plan.stage == 0:
            collectives = _stage_0(ring, sizes)
        elif plan.stage < 3:
            collectives = _stage_1_and_2(ring, plan, sizes)
        else:
            collectives = _stage_3(ring, model, plan, sizes)
    return Traffic(
        per_collective=tuple(collective for collective in collectives if collective.elements),
        textbook_elements=int(traffic_elements(sizes.trainable, plan.stage)),
    )


@dataclass(frozen=True, slots=True)
class _Ring:
    """Turns tensor passes into collectives over the whole job, or over groups inside a node."""

    cluster: Cluster
    element_bytes: int

    def send(self, kind: Kind, purpose: str, elements: int, calls: float, group: int | None = None) -> Collective:
        cluster = self.cluster
        world_size = group or cluster.num_gpus
        link = cluster.intra_node if world_size <= cluster.gpus_per_node else job_link(cluster)
        sent = elements * ring_factor(kind, world_size)
        count = max(1, round(calls)) if elements else 0
        seconds = sent * self.element_bytes / link.bandwidth_bytes_per_second
        return Collective(
            collective=kind,
            purpose=purpose,
            elements=int(sent),
            bytes=int(sent * self.element_bytes),
            count=count,
            link=link.name,
            seconds=seconds + count * call_seconds(kind, cluster, world_size),
        )


def _stage_0(ring: _Ring, s: Sizes) -> list[Collective]:
    return [ring.send("all-reduce", "gradients, once per step", s.trainable, ceil_div(s.trainable, STAGE_0_BUCKET))]


def _each(steps: int) -> str:
    return "once per step" if steps == 1 else f"in each of {steps} micro steps"


def _stage_1_and_2(ring: _Ring, plan: Plan, s: Sizes) -> list[Collective]:
    passes = 1 if plan.stage == 1 else plan.gradient_accumulation_steps
    often = _each(passes)
    kind: Kind = "all-reduce" if plan.multi_rank_bucket_allreduce else "reduce"
    calls: float = ceil_div(s.trainable, max(1, s.bucket))
    if kind == "reduce":
        calls += _REDUCE_CALLS_PER_RANK * s.world_size
    return [
        ring.send(kind, f"gradients, {often}", passes * s.trainable, passes * calls),
        ring.send("all-gather", "updated weights, once per step", s.trainable, 1),
    ]


def _stage_3(ring: _Ring, model: ModelSpec, plan: Plan, s: Sizes) -> list[Collective]:
    steps = plan.gradient_accumulation_steps
    # modules are fetched one by one, about eight to a block; prefetching joins them up to its bucket
    layer = model.layer_parameters
    fetch = max(1, layer // 8, min(plan.prefetch_bucket_size, layer))
    again = s.total - s.retained
    forward_calls, backward_calls = ceil_div(s.total, fetch), ceil_div(again, fetch)
    each = _each(steps)
    group = plan.zero_hpz_partition_size
    if group > 1:
        inside = s.total * (steps - 1) + again * steps
        inside_calls = forward_calls * (steps - 1) + backward_calls * steps
        gathers = [
            ring.send("all-gather", "weights, once per step", s.total, forward_calls),
            ring.send("all-gather", f"weights inside groups of {group}, {each}", inside, inside_calls, group),
        ]
    else:
        gathers = [
            ring.send("all-gather", f"weights for forward, {each}", steps * s.total, steps * forward_calls),
            ring.send("all-gather", f"weights for backward, {each}", steps * again, steps * backward_calls),
        ]
    reference_calls = steps * ceil_div(s.reference, fetch)
    gathers.append(ring.send("all-gather", f"the frozen model, {each}", steps * s.reference, reference_calls))
    reduce_calls = steps * ceil_div(s.trainable, max(1, s.bucket))
    return [*gathers, ring.send("reduce-scatter", f"gradients, {each}", steps * s.trainable, reduce_calls)]
