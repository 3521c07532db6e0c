"""Bucket sizes and stage 3's limits, from the model's width and the link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zeroconf.estimate.links import job_link
from zeroconf.units import round_up

if TYPE_CHECKING:
    from zeroconf.types import Cluster, ModelSpec, Workload

# start-up of one collective in the fit t = alpha + bytes / bandwidth over nccl-tests sweeps: 370 us (2 p4de),
# 150 us (2 p5), 414 us (4 p6-b200); public tables of aws-samples/awsome-distributed-training and stas00/ml-engineering
ALPHA_SECONDS: Final = 400e-6
# bytes / (bytes + alpha x bandwidth) = 0.8
_FILL: Final = 4
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
    """Elements of a bucket that reaches 80 % of the link: ``4 x alpha x bandwidth``.

    At least one square weight matrix (Transformers' "auto"), at most DeepSpeed's default. A100 NVLink,
    235 GB/s, 2-byte elements: 4 * 400e-6 * 235e9 / 2 = 188e6.
    """
    fill = int(_FILL * ALPHA_SECONDS * job_link(cluster).bandwidth_bytes_per_second / element_bytes)
    return min(_DEEPSPEED_REDUCE_BUCKET, max(fill, hidden_size**2, _SMALLEST))


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
