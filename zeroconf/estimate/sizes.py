"""Element counts and byte widths that the formulas share, as DeepSpeed's partitioning gives them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from zeroconf.estimate.activations import dtype_bytes
from zeroconf.estimate.mixtures import expert_elements, kept_expert_elements
from zeroconf.estimate.muon import Muon, muon_memory
from zeroconf.estimate.optimizers import MASTER_BYTES, OptimizerMemory, optimizer_memory
from zeroconf.estimate.packed import packed
from zeroconf.estimate.releases import DeepSpeedRelease
from zeroconf.estimate.tensors import buckets, last_reduction, model_tensors, sub_groups, touched_elements
from zeroconf.estimate.tree import Shape, tree
from zeroconf.types import Versions
from zeroconf.units import ceil_div, next_power_of_two

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroconf.estimate.tensors import Buckets
    from zeroconf.types import Cluster, ModelSpec, Plan, Workload

_PARAMETER_STAGE: Final = 3
NEWEST: Final = Versions()
__all__ = ["MASTER_BYTES", "NEWEST", "Sizes", "sizes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The symbols of the formulas.

    Elements: ``total`` all parameters on this rank before partitioning (four packed weights are one), ``unpacked`` all
    weights, ``trainable`` those that the optimizer sees, ``shard`` one rank's share of them, ``touched`` the whole
    tensors that overlap that share (stages 1 and 2 keep their gradients whole), ``largest`` the largest tensor that
    trains, ``largest_gathered`` the largest of all, ``largest_inner`` the largest outside the vocabulary matrices,
    ``first`` the input's vocabulary matrix, ``last`` the largest that is gathered after the first block: the output
    matrix, unless it is tied to the first, ``module`` the largest module that computes at once, ``reference`` a frozen
    model beside, ``experts`` those of one block, ``layer`` one block, ``saved_experts`` those that autograd keeps from
    forward to backward, ``saved_linear`` the linear layers' where it keeps those too, ``persistent`` and
    ``persistent_adapters`` what is under stage 3's persistence threshold, ``retained`` what is still gathered when
    backward starts, ``sub_group`` the optimizer's working unit, the largest of ``num_sub_groups``, ``on_gpu`` what
    offload leaves on the GPU of the optimizer's.

    Elements of the reduce ``bucket``: ``filled`` when it is fullest and ``reduced`` in all by then, ``first_filled``
    and ``final`` the first time and the last, ``oversized`` of tensors that pass it by, ``waiting`` when a gradient
    beyond it is there, ``last_filled`` when all weights but ``last_gathered`` elements and the first vocabulary matrix
    are released.

    Bytes: ``element_bytes`` of the model, ``gradient_bytes`` of accumulated gradients, ``communication_bytes`` of what
    the collectives send, ``autocast_cache`` of the 16-bit copies that torch_autocast keeps of the linear layers'
    weights from forward to backward, ``tied_bytes`` of the output's gradient of a tied vocabulary matrix, which waits
    for the input's; then their sum is made beside both. Of packed weights (``packed.py``): ``absmax_bytes`` of their
    blocks' maxima, ``dequantized_bytes`` of the layer that computes, ``built_bytes`` of the model as peft prepares it,
    where the other weights are fp32 until the engine casts.

    ``apart`` is what a rank's share of frozen weights takes in pinned memory, by its own size: each tensor is a block.

    ``release`` is DeepSpeed's; ``bf16_optimizer`` whether BF16_Optimizer wraps the optimizer, ``unpartitioned`` whether
    stage 0's wrapper does at stage 1.
    """

    world_size: int
    total: int
    unpacked: int
    trainable: int
    shard: int
    frozen_shard: int
    touched: int
    largest: int
    largest_gathered: int
    largest_inner: int
    first: int
    last: int
    module: int
    bucket: int
    filled: int
    reduced: int
    first_filled: int
    final: int = 0
    oversized: int = 0
    waiting: int = 0
    last_gathered: int = 0
    last_filled: int = 0
    persistent: int
    persistent_adapters: int = 0
    layer: int
    experts: int = 0
    reference: int = 0
    saved_experts: int = 0
    saved_linear: int = 0
    retained: int
    sub_group: int
    num_sub_groups: int
    on_gpu: int
    element_bytes: int
    gradient_bytes: int
    communication_bytes: int
    optimizer: OptimizerMemory
    muon: Muon | None = None
    release: DeepSpeedRelease
    bf16_optimizer: bool = False
    unpartitioned: bool = False
    fp16: bool = False
    autocast_cache: int = 0
    tied_bytes: int = 0
    absmax_bytes: int = 0
    dequantized_bytes: int = 0
    built_bytes: int = 0
    apart: float = 1.0

    @property
    def moments_bytes(self) -> int:
        """Bytes of the optimizer's own tensors on one rank."""
        if self.muon:
            return self.muon.momentum_bytes + self.muon.adam_bytes
        return self.optimizer.states_bytes(self.shard)

    def gathers(self, plan: Plan) -> bool:
        """Whether stage 3 has a parameter that computes whole beside its shard.

        On one GPU the shard is the parameter, unless it lies elsewhere: then each is copied to the GPU, under the same
        limits (partition_parameters.py: NoGatherHandle, NoGatherCoalescedHandle).
        """
        return self.world_size > 1 or plan.offload_param != "none"


def trainable_elements(model: ModelSpec, workload: Workload) -> int:
    """Elements that train: all, or the adapters."""
    return model.num_parameters if workload.trainable_parameters is None else workload.trainable_parameters


def total_elements(model: ModelSpec, workload: Workload) -> int:
    """Elements that the engine holds: the model and, with LoRA, the adapters on top."""
    adapters = 0 if workload.lora_rank is None else (workload.trainable_parameters or 0)
    return model.num_parameters + adapters


def inner_largest(model: ModelSpec) -> int:
    """Elements of the largest tensor of a block: an MLP matrix, or a mixture's experts together.

    Llama-3-8B: 14336 x 4096 = 58.7e6.
    """
    matrix = model.hidden_size * max(model.intermediate_size, model.query_size)
    experts = model.num_experts * model.hidden_size * model.intermediate_size * (2 if model.gated_mlp else 1)
    return max(matrix, experts)


def largest_trainable(model: ModelSpec, workload: Workload) -> int:
    """Elements of the largest tensor that trains; an adapter's is its rank times the widest layer."""
    if workload.lora_rank is None:
        return min(model.largest_parameter, trainable_elements(model, workload))
    return workload.lora_rank * max(model.hidden_size, model.intermediate_size, model.query_size)


def retained_elements(plan: Plan, total: int) -> int:
    """Parameters still gathered when backward starts, so that it need not gather them again.

    Trailing layers stay while half of ``stage3_max_reuse_distance`` covers them, since a layer is used again after
    twice the parameters behind it (zero/partitioned_param_coordinator.py: __params_to_release).
    """
    return min(total, max(plan.max_live_parameters, plan.max_reuse_distance // 2))


def persistent_elements(model: ModelSpec, workload: Workload, plan: Plan) -> tuple[int, int]:
    """Elements of the parameters under stage 3's persistence threshold: the model's own, and the adapters'.

    partition_parameters.py: ds_persist, each parameter by its size. Llama-3-8B: 266,240 of the norms with 10,000, and
    with 20e6 also keys, values, queries and outputs, 1.34e9.
    """
    rank, packs = workload.lora_rank or 0, workload.quantize is not None
    adapters = (workload.trainable_parameters or 0) if rank else 0
    shape = Shape(model, model.num_layers, lora_rank=rank, adapters=adapters, packs=packs)
    return _persistent(shape, plan.param_persistence_threshold)


@lru_cache
def _persistent(shape: Shape, threshold: int) -> tuple[int, int]:
    under = [one for one in tree(shape).parameters if one.elements <= threshold]
    own = sum(one.elements for one in under if not one.adapter)
    return own, sum(one.elements for one in under if one.adapter)


def has_bf16_optimizer(workload: Workload, plan: Plan, release: DeepSpeedRelease) -> bool:
    """Whether DeepSpeed wraps the optimizer with BF16_Optimizer (engine.py: _do_optimizer_sanity_check).

    Bf16 at stage 1 with fp32 gradients and no offload, in older releases stage 0 too.
    """
    if workload.precision != "bf16" or plan.offload_optimizer != "none":
        return False
    return (plan.stage == 1 and plan.fp32_gradients) or (plan.stage == 0 and release.bf16_optimizer_at_stage_0)


def saved_linear_elements(model: ModelSpec, total: int, plan: Plan, release: DeepSpeedRelease) -> int:
    """Gathered elements that autograd keeps of linear layers until backward at stage 3, unless blocks are recomputed.

    torch.nn.functional.linear keeps a view of the weight, which outlives its release; DeepSpeed's own function
    (zero/linear.py) keeps the parameter, and so does GPT-2's Conv1D. Falcon's own layers multiply by a view, which
    nobody replaces. Llama-3-8B: all but the input's vocabulary.
    """
    if model.architecture == "falcon" and not plan.activation_checkpointing:
        return total - model.embedding_parameters * (1 if model.tied_embeddings else 2)
    replaced = plan.memory_efficient_linear and (plan.zero_init or release.replaces_linear_without_zero_init)
    if replaced or plan.activation_checkpointing:
        return 0
    if model.architecture == "gpt2":
        return model.embedding_parameters
    inputs = 0 if model.tied_embeddings else model.embedding_parameters
    return total - inputs - (model.num_layers - model.num_dense_layers) * expert_elements(model)


def gradient_bytes(workload: Workload, plan: Plan, *, bf16_optimizer: bool) -> int:
    """Bytes of an accumulated gradient: the model's own unless the configuration or the wrapper says fp32."""
    return MASTER_BYTES if plan.fp32_gradients or bf16_optimizer else dtype_bytes(workload)


@lru_cache
def trained_tensors(model: ModelSpec, workload: Workload) -> tuple[int, ...]:
    """Elements of the tensors that train, in order; adapters are taken as all of the largest one's size."""
    if workload.lora_rank is None:
        return tuple(model_tensors(model))
    largest = largest_trainable(model, workload)
    return (largest,) * ceil_div(trainable_elements(model, workload), largest)


# hundreds of tensors are packed in a handful of ways, each of which hundreds of plans share


@lru_cache
def _packed(model: ModelSpec, workload: Workload, bucket: int, live: int) -> tuple[Buckets, tuple[int, int]]:
    """The reduce bucket's fillings, and those beside the first vocabulary matrix under a limit of live parameters."""
    tensors = trained_tensors(model, workload)
    return buckets(tensors[::-1], bucket), last_reduction(tensors[:0:-1], bucket, live)


@lru_cache
def _oversized(model: ModelSpec, workload: Workload, bucket: int) -> int:
    """Elements of the tensors that are larger than the reduce bucket."""
    return sum(size for size in trained_tensors(model, workload) if size > bucket)


@lru_cache
def _touched(model: ModelSpec, workload: Workload, shard: int) -> int:
    """Elements of the whole tensors that overlap the first rank's share."""
    return touched_elements(trained_tensors(model, workload), shard)


@lru_cache
def _grouped(model: ModelSpec, workload: Workload, world_size: int, sub_group_size: int) -> tuple[int, ...]:
    """Elements of stage 3's sub-groups on one rank."""
    shards = (ceil_div(one, world_size) for one in trained_tensors(model, workload))
    return tuple(sub_groups(shards, sub_group_size))


@lru_cache
def pinned_apart(model: ModelSpec, world_size: int, element_bytes: int) -> float:
    """What a rank's shares of all matrices take as pinned blocks, each rounded to a power of two, by their own size.

    zero/partition_parameters.py, _partition_param: ``pin_memory(partitioned_tensor)``; those of a parameter that trains
    move to a flat buffer later. Llama-3.1-8B on one GPU: gate, up and down projection of 112 MiB are 128 each, queries
    and output 32, keys and values 8, of 32 blocks; twice 1002 MiB are 1024: 16.5 by 14.96 GiB is 1.10.
    """
    shares = [element_bytes * ceil_div(one, world_size) for one in model_tensors(model)]
    return sum(map(next_power_of_two, shares)) / sum(shares)


def elements_on_gpu(plan: Plan, groups: Sequence[int], shard: int) -> int:
    """Elements whose masters and states stay on the GPU at stage 3: all, or with offload some sub-groups by ``ratio``.

    zero/stage3.py, _create_fp32_partitions: the first ``int((1 - ratio) * sub-groups)``. 5 sub-groups, ratio 0.5: 2.
    """
    if plan.offload_optimizer == "none":
        return shard
    return min(shard, sum(groups[: int((1 - plan.offload_ratio) * len(groups))]))


def _muon(model: ModelSpec, workload: Workload, plan: Plan, world_size: int) -> Muon | None:
    """Muon's own figures, where it is the optimizer."""
    if plan.optimizer_variant != "muon":
        return None
    adapters, element_bytes = workload.lora_rank is not None, dtype_bytes(workload)
    trainable = trainable_elements(model, workload)
    return muon_memory(model, trainable, plan, world_size, adapters=adapters, element_bytes=element_bytes)


def sizes(model: ModelSpec, cluster: Cluster, workload: Workload, plan: Plan, versions: Versions = NEWEST) -> Sizes:
    """The symbols for one plan on one cluster, in one release of DeepSpeed.

    Stages 1 and 2 pad a flat group to 2 N elements (zero/stage_1_and_2.py: align_dense_tensors with
    nccl_start_alignment_factor 2), stage 3 partitions each tensor (zero/partition_parameters.py).
    """
    total, trainable = total_elements(model, workload), trainable_elements(model, workload)
    world_size = cluster.num_gpus // workload.tensor_parallel_size
    release = DeepSpeedRelease(versions.deepspeed)
    bf16_optimizer = has_bf16_optimizer(workload, plan, release)
    unpartitioned = bf16_optimizer and plan.stage == 1 and release.confuses_bf16_wrappers
    bf16_optimizer = bf16_optimizer and not unpartitioned
    shard = (
        ceil_div(trainable, world_size) if plan.stage == _PARAMETER_STAGE else ceil_div(trainable, 2 * world_size) * 2
    )
    whole = unpartitioned or (plan.stage == 0 and not bf16_optimizer) or world_size == 1
    shard = trainable if whole else shard
    largest = largest_trainable(model, workload)
    ahead = plan.max_live_parameters if plan.prefetch_bucket_size else 0
    bucket, (last_gathered, last_filled) = _packed(model, workload, plan.reduce_bucket_size, ahead)
    groups: tuple[int, ...] = (shard,)
    if plan.sub_group_size < shard:
        groups = _grouped(model, workload, world_size, plan.sub_group_size)
    muon = _muon(model, workload, plan, world_size)
    persistent, persistent_adapters = persistent_elements(model, workload, plan)
    touched = max(shard, largest) + muon.touched if muon else _touched(model, workload, shard)
    found = Sizes(
        world_size=world_size,
        total=total,
        unpacked=total,
        trainable=trainable,
        shard=shard,
        frozen_shard=ceil_div(total - trainable, world_size),
        touched=min(trainable, max(shard, touched)),
        muon=muon,
        largest=largest,
        largest_gathered=model.largest_parameter,
        largest_inner=inner_largest(model),
        first=model.embedding_parameters,
        last=inner_largest(model) if model.tied_embeddings else model.largest_parameter,
        module=model.largest_module,
        bucket=plan.reduce_bucket_size,
        filled=min(trainable, bucket.filled),
        reduced=min(trainable, bucket.reduced),
        first_filled=min(trainable, bucket.first),
        final=min(trainable, bucket.last),
        oversized=_oversized(model, workload, plan.reduce_bucket_size),
        waiting=bucket.waiting,
        last_gathered=last_gathered,
        last_filled=last_filled,
        persistent=persistent,
        persistent_adapters=persistent_adapters,
        layer=model.layer_parameters,
        experts=expert_elements(model),
        reference=workload.frozen_parameters,
        saved_experts=0 if plan.activation_checkpointing else kept_expert_elements(model),
        saved_linear=saved_linear_elements(model, total, plan, release),
        retained=retained_elements(plan, total),
        sub_group=min(shard, max(groups)),
        num_sub_groups=len(groups),
        on_gpu=elements_on_gpu(plan, groups, shard),
        element_bytes=dtype_bytes(workload),
        gradient_bytes=gradient_bytes(workload, plan, bf16_optimizer=bf16_optimizer),
        communication_bytes=MASTER_BYTES if plan.fp32_communication else dtype_bytes(workload),
        optimizer=optimizer_memory(plan.optimizer_variant or workload.optimizer),
        release=release,
        bf16_optimizer=bf16_optimizer,
        unpartitioned=unpartitioned,
        fp16=workload.precision == "fp16",
        tied_bytes=dtype_bytes(workload) * model.embedding_parameters
        if model.tied_embeddings and workload.lora_rank is None
        else 0,
        apart=pinned_apart(model, world_size, dtype_bytes(workload)),
        autocast_cache=2 * (model.num_parameters - model.embedding_parameters) if plan.torch_autocast else 0,
    )
    if workload.quantize is None:
        return found
    return packed(found, model, workload.quantize, recomputed=plan.activation_checkpointing)
