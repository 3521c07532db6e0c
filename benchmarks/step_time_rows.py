"""Published timings as the estimate's facts, and what another engine than DeepSpeed does otherwise.

The product predicts DeepSpeed under Transformers. An engine's own ways are read here, by one rule for each engine:
fused modules (Megatron, nanotron, llm-foundry, ColossalAI), communication hidden behind compute (FSDP), DDP's buckets
(nanotron), and no DeepSpeed hooks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from accuracy_rows import Row, cluster, model, plan, rows, workload

from zeroconf.estimate.links import call_seconds
from zeroconf.estimate.sizes import NEWEST, sizes
from zeroconf.estimate.step_time import step_time
from zeroconf.estimate.traffic import traffic
from zeroconf.rates import RATES, Rates

if TYPE_CHECKING:
    from zeroconf.estimate.sizes import Sizes
    from zeroconf.types import Cluster, Collective, ModelSpec, Plan, StepTime, Traffic, Workload

# FSDP prefetches the next block's weights while it computes: step-time fits of llm-foundry's 1600 Gb/s runs
FSDP_EXPOSURE = 0.1
# how the fused modules of Megatron, nanotron or llm-foundry differ from Transformers'
FUSED_BLOCK_BYTES = 305.0
# DDP's buckets (torch: bucket_cap_mb), which nanotron reduces in fp32
DDP_BUCKET_BYTES = 25e6
_FUSED = ("Megatron", "nanotron", "Composer", "Colossal")
# Megatron's fused softmax writes and reads half of what eager attention does
_FUSED_SCORES = 0.5
# sources with a release before stage 3 was rewritten (0.6), which copied what it sent: the rewrite took RoBERTa-50B
# from 38.2 to 22.2 s a step of 305 GB (DeepSpeed PR#1453, 67.6 and 116.1 TFLOPS)
_BEFORE_REWRITE = ("bigsci", "dsauto")
OLD_COPY_BYTES_PER_SECOND = 19e9


class _Facts(NamedTuple):
    """What ``step_time`` takes."""

    model: ModelSpec
    cluster: Cluster
    workload: Workload
    plan: Plan
    traffic: Traffic
    sizes: Sizes


@dataclass(frozen=True)
class Timing:
    """One published run: its facts, its seconds, and the prediction; weights may stay in groups of ``hpz``."""

    row: Row
    hpz: int = 1

    @property
    def source(self) -> str:
        """The source's short name."""
        return self.row["id"].rsplit("-", 1)[0]

    @property
    def engine(self) -> str:
        """DeepSpeed, FSDP, nanotron, ColossalAI, or none of them."""
        framework = self.row["framework"]
        named = [name for name in ("DeepSpeed", "FSDP", "nanotron", "ColossalAI") if name in framework]
        return named[0] if named else "plain PyTorch"

    @property
    def full(self) -> bool:
        """Whether all parameters train."""
        return not self.row["lora_rank"]

    @property
    def known_network(self) -> bool:
        """Whether the source says what joins its nodes."""
        return self.row["network"] != "unknown"

    @property
    def chip(self) -> str:
        """The GPU's chip."""
        return self.row["gpu"].split("-")[0]

    @property
    def efficiency(self) -> float:
        """The share of the peak that the table gives the chip."""
        return self._facts.cluster.gpu.max_efficiency

    @property
    def measured_seconds(self) -> float:
        """One optimizer step, from tokens per second."""
        tokens = int(self.row["sequence_length"]) * int(self.row["micro_batch"]) * int(self.row["accumulation"])
        return tokens / float(self.row["tokens_per_second_per_gpu"])

    @cached_property
    def _facts(self) -> _Facts:
        spec = model(self.row)
        place = cluster(self.row)
        work = workload(self.row, spec)
        chosen = replace(plan(self.row, spec), zero_hpz_partition_size=self.hpz)
        parts = sizes(spec, place, work, chosen, NEWEST)
        return _Facts(spec, place, work, chosen, self._sent(traffic(spec, place, work, chosen, parts), place), parts)

    def _sent(self, found: Traffic, place: Cluster) -> Traffic:
        """DDP reduces fp32 gradients in buckets of 25 MB; old releases copy at stage 3."""
        if self.engine == "nanotron":
            return replace(found, per_collective=tuple(_in_ddp_buckets(one, place) for one in found.per_collective))
        if self.source in _BEFORE_REWRITE and self.row["stage"] == "3":
            copied = [
                replace(one, seconds=one.seconds + one.bytes / OLD_COPY_BYTES_PER_SECOND)
                for one in found.per_collective
            ]
            return replace(found, per_collective=tuple(copied))
        return found

    def step(self, constants: dict[str, float]) -> StepTime:
        """The prediction: constants are fields of Rates, ``fused_block_bytes``, ``fsdp_exposure``, chips' shares."""
        place = self._facts.cluster
        share = constants.get(f"{self.chip} efficiency", self.efficiency)
        place = replace(place, gpu=replace(place.gpu, max_efficiency=share))
        return step_time(*self._facts._replace(cluster=place), self._rates(constants))

    def _rates(self, constants: dict[str, float]) -> Rates:
        known = {name: value for name, value in constants.items() if hasattr(RATES, name)}
        rates = replace(RATES, **known)
        if any(name in self.row["framework"] for name in _FUSED):
            block = constants.get("fused_block_bytes", FUSED_BLOCK_BYTES)
            rates = replace(rates, block_bytes=block, score_bytes=_FUSED_SCORES * rates.score_bytes)
        if self.engine != "DeepSpeed":
            rates = replace(rates, stage_2_hook_seconds=0.0, stage_3_fetch_seconds=0.0, step_hook_seconds=0.0)
        if self.engine == "FSDP":
            # a block's parameters are one tensor, which comes up from the host whole
            exposure = constants.get("fsdp_exposure", FSDP_EXPOSURE)
            rates = replace(rates, exposure=exposure, low_upload_share=rates.upload_share)
        return rates


def _in_ddp_buckets(one: Collective, place: Cluster) -> Collective:
    if one.collective != "all-reduce":
        return one
    wire = one.seconds - one.count * call_seconds(one.collective, place, place.num_gpus)
    calls = max(1, round(one.bytes / DDP_BUCKET_BYTES))
    seconds = 2 * wire + calls * call_seconds(one.collective, place, place.num_gpus)
    return replace(one, bytes=2 * one.bytes, count=calls, seconds=seconds)


def timings() -> list[Timing]:
    """All usable runs."""
    return [Timing(row) for row in rows("measured") + rows("timed") if row["tokens_per_second_per_gpu"]]
