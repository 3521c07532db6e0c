"""What one GPU sends in one optimizer step, as DeepSpeed 0.19.8 sends it; benchmarks/traffic_counts.py counts it.

* Stage 0 all-reduces all gradients once per step (engine.py: buffered_allreduce_fallback).
* Stages 1 and 2 all-reduce each bucket even with ``reduce_scatter`` (stage_1_and_2.py: allreduce_and_scatter;
  ``use_multi_rank_bucket_allreduce`` false sends a reduce to each owner), then all-gather the updated weights. Stage 1
  reduces once per step, stage 2 in every micro step.
* Stage 3 gathers what its coordinator has not kept (gathers.py) and reduce-scatters, both in every micro step, and
  gathers persistent parameters in the optimizer step. hpZ gathers over all ranks once per step and inside the node
  otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zeroconf.estimate.gathers import Gathered, Limits, Widths, deepened, gathered
from zeroconf.estimate.links import call_seconds, job_link
from zeroconf.estimate.optimizers import MASTER_BYTES
from zeroconf.estimate.passes import Pass, each, quantized_gradients
from zeroconf.estimate.reductions import (
    NOTHING,
    Gradients,
    Sent,
    gradients,
    partition_buckets,
    reduced_buckets,
    scattered_buckets,
    total,
    whole_buckets,
)
from zeroconf.estimate.rules_of_thumb import traffic_elements
from zeroconf.estimate.shared_samples import shared_samples
from zeroconf.estimate.stage_0 import STAGE_0_BUCKET
from zeroconf.estimate.trace import trace
from zeroconf.estimate.transfers import transfers
from zeroconf.estimate.tree import Shape
from zeroconf.estimate.wire import sent_share
from zeroconf.types import Cluster, Collective, CollectiveKind, ModelSpec, Plan, Traffic, Workload
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.estimate.sizes import Sizes

_HALF: Final = 2
_FLAG, _NORM = 1, 8
# of a deeper model so many blocks are traced, and others taken to be alike in turns of so many
_SHALLOW, _PERIOD = 12, 4
_FARTHEST: Final = 3  # passes over the model between two uses of a parameter, with recomputation
_FEW: Final = 3  # blocks that a limit holds, so that the outer ones are not felt in the middle


def traffic(model: ModelSpec, cluster: Cluster, workload: Workload, plan: Plan, sizes: Sizes) -> Traffic:
    """All collectives of one optimizer step, none on one GPU; and what offload moves.

    ``model`` is what tensor parallelism leaves on a rank; ZeRO then partitions it over every such rank of the job.
    """
    step = _Step(model, workload, plan, sizes, cluster.num_nodes)
    passes = list(step.passes()) if sizes.world_size > 1 else []
    if (rings := workload.tensor_parallel_size) > 1:
        spread = cluster.num_nodes > 1
        passes = [replace(one, group=one.group or sizes.world_size, between=spread, rings=rings) for one in passes]
    passes += shared_samples(model, workload, plan)
    return Traffic(
        per_collective=tuple(_collective(one, cluster) for one in passes if one.sent.calls),
        textbook_elements=int(traffic_elements(sizes.total, plan.stage, sizes.trainable)),
        transfers=transfers(plan, sizes, step.gathered_elements()),
    )


def _collective(one: Pass, cluster: Cluster) -> Collective:
    """A pass on its link."""
    ranks = one.group or cluster.num_gpus
    inside = ranks <= cluster.gpus_per_node and not one.between
    link = cluster.intra_node if inside else job_link(cluster)
    elements = round(one.sent.elements * sent_share(one.kind, ranks))
    sharing = 1 if inside else one.rings
    seconds = sharing * elements * one.element_bytes / link.bandwidth_bytes_per_second
    return Collective(
        collective=one.kind,
        purpose=one.purpose,
        elements=elements,
        bytes=elements * one.element_bytes,
        count=one.sent.calls,
        link=link.name,
        seconds=seconds + one.sent.calls * call_seconds(one.kind, cluster, ranks),
        group_size=ranks,
        payload_elements=one.sent.elements,
        element_bytes=one.element_bytes,
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """One optimizer step of one plan."""

    model: ModelSpec
    workload: Workload
    plan: Plan
    sizes: Sizes
    num_nodes: int

    def passes(self) -> Iterator[Pass]:
        """Everything that is sent."""
        stage = self.plan.stage
        if stage == 0 or self.sizes.bf16_optimizer or self.sizes.unpartitioned:
            yield from self._whole()
        elif stage < 3:
            yield from self._partitioned()
        else:
            yield from self._gathers()
            yield from self._scatters()
        yield from self._checks()

    @property
    def _shape(self) -> Shape:
        plan, workload = self.plan, self.workload
        return Shape(
            self.model,
            self.model.num_layers,
            lora_rank=workload.lora_rank or 0,
            adapters=(workload.trainable_parameters or 0) if workload.lora_rank else 0,
            packs=workload.quantize is not None,
            recomputes=plan.activation_checkpointing,
            partitioned=plan.stage == 3,
            bias_first=plan.stage < 3 or not plan.memory_efficient_linear,
        )

    def _gradients(self, *, ready: bool) -> Iterator[tuple[int, Gradients]]:
        """Those that train with bytes of an element as it is reduced: a bucket for each dtype with torch_autocast."""
        s, shape = self.sizes, self._shape._replace(recomputes=False)
        more = max(0, shape.layers - _SHALLOW) if self.model.kind != "encoder-decoder" else 0
        found = trace(shape._replace(layers=shape.layers - more))
        if not self.plan.torch_autocast:
            yield s.communication_bytes, gradients(found, s.trainable, more, ready=ready)
            return
        for linear, width in ((True, _HALF), (False, s.communication_bytes)):
            yield width, gradients(found, s.trainable, more, ready=ready, linear=linear)

    def _whole(self) -> Iterator[Pass]:
        for width, found in self._gradients(ready=False):
            sent = whole_buckets(found, STAGE_0_BUCKET)
            yield Pass("all-reduce", "gradients, once per step", sent, width)
        if self.plan.stage:
            yield self._updated()

    def _updated(self) -> Pass:
        """Flat groups, padded to two elements for each rank (stage_1_and_2.py: align_dense_tensors)."""
        s = self.sizes
        return Pass("all-gather", "updated weights, once per step", Sent(s.shard * s.world_size, 1), s.element_bytes)

    def _partitioned(self) -> Iterator[Pass]:
        """Stage 1 without overlap reduces in the optimizer's order, else as gradients are ready."""
        plan, s = self.plan, self.sizes
        times = 1 if plan.stage == 1 else plan.gradient_accumulation_steps
        in_slices = plan.reduce_scatter and plan.contiguous_gradients
        to_owners = in_slices and not plan.multi_rank_bucket_allreduce
        kind: CollectiveKind = "reduce" if to_owners else "all-reduce"
        for width, found in self._gradients(ready=plan.stage > 1 or plan.overlap_comm):
            sent = partition_buckets(found, s.bucket, s.shard, to_owners=to_owners, splits=in_slices)
            yield Pass(kind, f"gradients, {each(times)}", sent.times(times), width)
        yield self._updated()

    def _gathered(self) -> Gathered:
        """What one micro step gathers; adapters beside partitioned weights keep peft's fp32."""
        plan, s = self.plan, self.sizes
        adapter = MASTER_BYTES if plan.zero_init else s.element_bytes
        stored = Widths(s.element_bytes, adapter, s.element_bytes)
        widths = stored._replace(linear=_HALF, adapter=_HALF) if plan.torch_autocast else stored
        limits = Limits(
            plan.max_live_parameters,
            plan.max_reuse_distance,
            plan.prefetch_bucket_size,
            plan.param_persistence_threshold,
        )

        def at(layers: int) -> Gathered:
            return gathered(
                trace(self._shape._replace(layers=layers)),
                limits,
                Widths(1, 1, 1) if plan.quantized_weights else widths,
                stored,
                s.world_size,
                plan.zero_hpz_partition_size,
                accumulates=plan.gradient_accumulation_steps > 1,
            )

        layers = self.model.num_layers
        if not self._is_even(limits):
            return at(layers)
        shallow = _SHALLOW + (layers - _SHALLOW) % _PERIOD
        return deepened(at(shallow), at(shallow + _PERIOD), (layers - shallow) // _PERIOD)

    def _is_even(self, limits: Limits) -> bool:
        """Whether a deep model gathers alike in all its blocks but the outer ones: limits hold a few, or all."""
        if self.model.kind == "encoder-decoder" or self.model.num_layers <= _SHALLOW + _PERIOD:
            return False
        held = max(limits.max_live_parameters, limits.max_reuse_distance // 2)
        # the distance to a mixture counts what is around it as well (trace.py: whole_passed)
        few = 1 if self.model.num_experts else _FEW
        total = self.sizes.total
        keeps = limits.max_live_parameters > total and limits.max_reuse_distance >= _FARTHEST * total
        return keeps or held <= few * self.sizes.layer

    def gathered_elements(self) -> int:
        """Elements of all gathers of one micro step at stage 3."""
        if self.plan.stage < 3 or self.plan.offload_param == "none":
            return 0
        return sum(sent.elements for sent in self._gathered().every.values())

    def _gathers(self) -> Iterator[Pass]:
        plan, found = self.plan, self._gathered()
        steps, group = plan.gradient_accumulation_steps, plan.zero_hpz_partition_size
        if group == 1:
            for width, sent in found.every.items():
                yield Pass("all-gather", f"{self._weights(width)}, {each(steps)}", sent.times(steps), width)
        else:
            for width, sent in found.first.items():
                yield Pass("all-gather", f"{self._weights(width)}, once per step", sent, width)
            for width in found.again | found.later:
                later = found.later.get(width, NOTHING).times(steps - 1)
                inside = f"{self._weights(width)} inside groups of {group}, {each(steps)}"
                yield Pass("all-gather", inside, total((found.again.get(width, NOTHING), later)), width, group)
        for width, sent in found.step.items():
            yield Pass("all-gather", "persistent weights, once per step", sent, width)
        yield from self._reference(found)

    def _weights(self, width: int) -> str:
        if not self.plan.quantized_weights:
            return "weights"
        return "quantized weights" if width == 1 else "scales of quantized weights"

    def _reference(self, found: Gathered) -> Iterator[Pass]:
        """A frozen model beside gathers once in a micro step, in calls as large as this one's."""
        s, steps = self.sizes, self.plan.gradient_accumulation_steps
        if not s.reference:
            return
        sent = max(found.every.values(), key=lambda one: one.elements, default=Sent(1, 1))
        padded = ceil_div(s.reference, s.world_size) * s.world_size
        calls = max(1, round(s.reference * sent.calls / max(1, sent.elements)))
        yield Pass("all-gather", f"the frozen model, {each(steps)}", Sent(padded, calls).times(steps), s.element_bytes)

    def _scatters(self) -> Iterator[Pass]:
        plan, s = self.plan, self.sizes
        steps = plan.gradient_accumulation_steps
        purpose = f"gradients, {each(steps)}"
        for width, found in self._gradients(ready=True):
            if plan.quantized_gradients and self.num_nodes > 1:
                yield from quantized_gradients(found, width, self.model, s, self.num_nodes, steps)
                continue
            if plan.reduce_scatter or not plan.contiguous_gradients:
                sent = scattered_buckets(found, s.bucket, s.world_size)
                yield Pass("reduce-scatter", purpose, sent.times(steps), width)
                continue
            small, large = reduced_buckets(found, s.bucket, s.world_size)
            yield Pass("all-reduce", purpose, small.times(steps), width)
            yield Pass("reduce-scatter", purpose, large.times(steps), width)

    def _checks(self) -> Iterator[Pass]:
        """The norm of the gradients, and whether any is infinite: one element each.

        zero/stage_1_and_2.py: get_grad_norm_direct, has_overflow (check_grad_overflow, in 16 bits); zero/stage3.py
        computes the norm in fp64 (get_norm_dtype), with offload in fp32, and looks for overflow with fp16 alone. Stage
        0 clips fp32 gradients with a norm over all ranks (engine.py: clip_fp32_gradients).
        """
        stage, plan = self.plan.stage, self.plan
        half = self.sizes.element_bytes < MASTER_BYTES
        if self.sizes.bf16_optimizer or self.sizes.unpartitioned:
            return
        if stage in (1, 2):
            widths = [MASTER_BYTES, *([_FLAG] if half else [])]
        elif stage == 3:
            widths = [
                MASTER_BYTES if plan.offload_optimizer != "none" else _NORM,
                *([_FLAG] if self.sizes.fp16 else []),
            ]
        else:
            widths = [] if half else [MASTER_BYTES]
        for width in widths:
            purpose = "overflow flag, once per step" if width == _FLAG else "norm of the gradients, once per step"
            yield Pass("all-reduce", purpose, Sent(1, 1), width)
