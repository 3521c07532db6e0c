"""Bucket sizes and stage 3's limits, from the model's width and the link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zeroconf.estimate.links import call_seconds, job_link
from zeroconf.units import round_up

if TYPE_CHECKING:
    from zeroconf.types import Cluster, ModelSpec, Workload

# of the link's rate, where nothing else asks for a smaller bucket: beyond, a step gains less than two plans that tie
_FULL_SHARE: Final = 0.95
_DEEPSPEED_REDUCE_BUCKET: Final = 500_000_000
DEEPSPEED_PREFETCH_BUCKET: Final = 50_000_000
DEEPSPEED_LIVE: Final = 1_000_000_000
_LEAN_SUB_GROUP: Final = 100_000_000
_SMALLEST: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """One consistent set of sizes, in elements; by default DeepSpeed's own."""

    reduce_bucket_size: int = _DEEPSPEED_REDUCE_BUCKET
    prefetch_bucket_size: int = DEEPSPEED_PREFETCH_BUCKET
    param_persistence_threshold: int = 100_000
    max_live_parameters: int = DEEPSPEED_LIVE
    max_reuse_distance: int = DEEPSPEED_LIVE
    sub_group_size: int = DEEPSPEED_LIVE


def efficient_bucket(cluster: Cluster, hidden_size: int, element_bytes: int) -> int:
    """Elements of a bucket that reaches 95 % of the link, rounded up to a million.

    At least one square weight matrix (Transformers' "auto"), at most DeepSpeed's default. 8 A100 on NVLink, 235 GB/s,
    62 us a call, 2-byte elements: 19 * 62e-6 * 235e9 / 2 = 138e6.
    """
    full = _FULL_SHARE / (1 - _FULL_SHARE) * _idle_bytes(cluster) / element_bytes
    return min(_DEEPSPEED_REDUCE_BUCKET, max(round_up(int(full), _SMALLEST), hidden_size**2))


def fill_share(cluster: Cluster, num_bytes: int) -> float:
    """The share of the link's rate that reduce-scatters of so many bytes reach: bytes / (bytes + call x rate)."""
    return num_bytes / (num_bytes + _idle_bytes(cluster))


def _idle_bytes(cluster: Cluster) -> float:
    """What the slowest link would carry in the time that a call costs beside its bytes."""
    call = call_seconds("reduce-scatter", cluster, cluster.num_gpus)
    return call * job_link(cluster).bandwidth_bytes_per_second


def saves_traffic(cluster: Cluster) -> bool:
    """Whether keys that cut traffic are worth their complexity: on every link slower than NVLink."""
    return cluster.num_gpus > 1 and job_link(cluster).kind != "nvlink"


def bucket_profiles(model: ModelSpec, cluster: Cluster, workload: Workload, stage: int) -> list[Buckets]:
    """The sets worth trying at one stage.

    ``link``: buckets that fill the link, DeepSpeed's live limits. ``lean``: one weight matrix, two blocks live,
    small sub-groups, for when memory decides. ``keep`` (stage 3): limits above the model's size, so that weights
    gathered for forward are still there in backward: one all-gather less for 2 bytes per parameter, on slow links.
    """
    if stage == 0:
        return [Buckets()]
    element_bytes = 4 if workload.precision == "fp32" else 2
    matrix = max(model.hidden_size**2, _SMALLEST)
    fill = efficient_bucket(cluster, model.hidden_size, element_bytes)
    if stage < 3:
        return [Buckets(reduce_bucket_size=size) for size in dict.fromkeys((fill, min(fill, matrix)))]
    persistence = 10 * model.hidden_size
    link = Buckets(
        reduce_bucket_size=fill,
        prefetch_bucket_size=min(fill, max(matrix, DEEPSPEED_PREFETCH_BUCKET)),
        param_persistence_threshold=persistence,
    )
    two_blocks = round_up(2 * model.layer_parameters, _SMALLEST)
    lean = Buckets(
        reduce_bucket_size=matrix,
        prefetch_bucket_size=matrix,
        param_persistence_threshold=persistence,
        max_live_parameters=min(two_blocks, DEEPSPEED_LIVE),
        max_reuse_distance=min(two_blocks, DEEPSPEED_LIVE),
        sub_group_size=_LEAN_SUB_GROUP,
    )
    if model.num_parameters <= DEEPSPEED_LIVE or not saves_traffic(cluster):
        return [link, lean]
    whole = round_up(model.num_parameters, _SMALLEST)
    keep = Buckets(
        reduce_bucket_size=fill,
        prefetch_bucket_size=link.prefetch_bucket_size,
        param_persistence_threshold=persistence,
        max_live_parameters=whole,
        # forward to backward, with recomputation between
        max_reuse_distance=3 * whole,
    )
    return [link, lean, keep]
