"""Element counts and byte widths that the formulas share, as DeepSpeed's partitioning gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zeroconf.estimate.activations import dtype_bytes
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from zeroconf.types import Cluster, ModelSpec, Plan, Workload

# bytes of the optimizer's own fp32 tensors per element: momentum and variance, momentum, nothing
OPTIMIZER_STATE_BYTES: Final = {"adamw": 8, "adam": 8, "lion": 4, "sgd": 0}
MASTER_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The symbols of the formulas.

    Elements: ``total`` all parameters on this rank before partitioning, ``trainable`` those that the
    optimizer sees, ``shard`` one rank's share of them, ``touched`` the whole tensors that overlap that
    share (stages 1 and 2 keep their gradients whole), ``largest`` the largest tensor, ``bucket`` the reduce
    bucket, ``persistent`` parameters under stage 3's persistence threshold, ``live`` what stage 3 keeps
    gathered, ``sub_group`` the optimizer's working unit. Bytes: ``element_bytes`` of the model (also of
    gradients and communication), ``state_bytes`` of the optimizer's own tensors.
    """

    world_size: int
    total: int
    trainable: int
    shard: int
    frozen_shard: int
    touched: int
    largest: int
    bucket: int
    persistent: int
    live: int
    retained: int
    sub_group: int
    element_bytes: int
    state_bytes: int


def trainable_elements(model: ModelSpec, workload: Workload) -> int:
    """Elements that train: all, or the adapters."""
    return model.num_parameters if workload.trainable_parameters is None else workload.trainable_parameters


def total_elements(model: ModelSpec, workload: Workload) -> int:
    """Elements that the engine holds: the model and, with LoRA, the adapters on top."""
    adapters = 0 if workload.lora_rank is None else (workload.trainable_parameters or 0)
    return model.num_parameters + adapters


def live_elements(model: ModelSpec, plan: Plan, total: int) -> int:
    """Parameters that stage 3 keeps gathered.

    The prefetcher runs ahead until ``stage3_max_live_parameters``, whatever its bucket
    (zero/partitioned_param_coordinator.py: fetch_sub_module); trailing layers stay while half of
    ``stage3_max_reuse_distance`` covers them (there: __params_to_release). A module that computes is gathered whole,
    whatever the limits.
    """
    ahead = plan.max_live_parameters + plan.prefetch_bucket_size + model.largest_module
    return min(total, max(ahead, plan.max_reuse_distance // 2))


def retained_elements(plan: Plan, total: int) -> int:
    """Parameters still gathered when backward starts, so that it need not gather them again."""
    return min(total, max(plan.max_live_parameters, plan.max_reuse_distance // 2))


def persistent_elements(model: ModelSpec, plan: Plan) -> int:
    """Elements of tensors under the persistence threshold: the norms (two per block and the last one)."""
    norms = 2 * model.num_layers + 1
    return norms * model.hidden_size if model.hidden_size <= plan.param_persistence_threshold else 0


def sizes(model: ModelSpec, cluster: Cluster, workload: Workload, plan: Plan) -> Sizes:
    """The symbols for one plan on one cluster.

    Stages 1 and 2 pad a flat group to 2 N elements (zero/stage_1_and_2.py: align_dense_tensors with
    nccl_start_alignment_factor 2), stage 3 partitions each tensor (zero/partition_parameters.py).
    """
    total, trainable = total_elements(model, workload), trainable_elements(model, workload)
    world_size = cluster.num_gpus
    shard = ceil_div(trainable, 2 * world_size) * 2 if plan.stage in (1, 2) else ceil_div(trainable, world_size)
    largest = min(model.largest_parameter, trainable)
    return Sizes(
        world_size=world_size,
        total=total,
        trainable=trainable,
        shard=trainable if plan.stage == 0 or world_size == 1 else shard,
        frozen_shard=ceil_div(total - trainable, world_size),
        touched=min(trainable, max(shard, largest)),
        largest=largest,
        bucket=plan.reduce_bucket_size,
        persistent=persistent_elements(model, plan),
        live=live_elements(model, plan, total),
        retained=retained_elements(plan, total),
        sub_group=min(plan.sub_group_size, shard),
        element_bytes=dtype_bytes(workload),
        state_bytes=OPTIMIZER_STATE_BYTES[workload.optimizer],
    )
