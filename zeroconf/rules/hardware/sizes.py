"""ZC311 to ZC313, and ZC315: sizes that mean little or too much for this model, and ZeRO on a single GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.rules.planned import set_to
from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import whole
from zeroconf.units import count, gib, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig
    from zeroconf.rules.planned import Planned
    from zeroconf.types import ModelSpec

# share of the model that may be kept whole before stage 3 is something else than asked for
_SMALL_SHARE = 0.05
# share of the card from which a needless buffer is worth a word
_WORTH_A_WORD = 0.01


@rule("ZC311", "bucket-beyond-model", severity="info")
def bucket_beyond_model(planned: Planned) -> Iterator[Problem]:
    """The reduce bucket holds more than the model has, and is allocated all the same.

    reduce_bucket_size elements are allocated whatever the model's size, twice with overlap_comm at stages 1 and 2
    (runtime/zero/stage_1_and_2.py, setup_buckets; runtime/zero/stage3.py; DeepSpeed#2992). The default is 5e8
    elements: 1 GB in 16 bits. Told where the peak would be lower with a bucket that reaches 95 % of the link's rate,
    and the step no slower.

    Example:
        ```json model=gpt2 hardware=2xT4-16GB seq-len=128
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "fp16": {"enabled": true},
         "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 500000000}}
        ```

    Use instead:
        ```json model=gpt2 hardware=2xT4-16GB seq-len=128
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "fp16": {"enabled": true},
         "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 10000000}}
        ```
    """
    plan, facts = planned.plan, planned.facts
    trainable = facts.workload.trainable_parameters or facts.model.num_parameters
    better = planned.of_file.efficient_bucket
    if plan.stage == 0 or plan.reduce_bucket_size <= max(trainable, better):
        return
    smaller = planned.of_file.with_changes(reduce_bucket_size=better)
    saved = planned.cost.gpu.peak_allocated_bytes - smaller.estimate.gpu.peak_allocated_bytes
    if saved > _WORTH_A_WORD * planned.cost.capacity_bytes and planned.of_file.is_no_slower(smaller, ties=True):
        reached = f"{better:,} reaches {planned.of_file.fill_share(better):.0%} of {planned.of_file.link.name}"
        yield Problem(
            f"reduce_bucket_size {plan.reduce_bucket_size:,} is more than the {count(trainable)} parameters that train,"
            f" and allocated all the same: {reached} and takes {gib(saved)} less",
            planned.path("bucket"),
            fix=set_to(planned, bucket=better),
        )


@rule("ZC312", "persistence-keeps-matrices", severity="warning")
def persistence_keeps_matrices(planned: Planned) -> Iterator[Problem]:
    """stage3_param_persistence_threshold keeps whole weight matrices on every GPU.

    Parameters of at most so many elements are not released after use (runtime/zero/parameter_offload.py,
    mark_persistent_parameters): meant for norms and biases. Above the size of a weight matrix, stage 3 holds on each
    GPU what it was to partition, and gathers it no more. Told where the plan is not comfortable with it, and less kept
    makes it so or costs no time.

    Example:
        ```json model=llama-3.1-8b hardware=8xA100-40GB seq-len=2048
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 100000000}}
        ```

    Use instead:
        ```json model=llama-3.1-8b hardware=8xA100-40GB seq-len=2048
        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 40960}}
        ```
    """
    plan, model = planned.plan, planned.facts.model
    kept = _matrices_within(model, plan.param_persistence_threshold)
    if plan.stage != 3 or kept <= _SMALL_SHARE * model.num_parameters:
        return
    element_bytes = 4 if planned.facts.workload.precision == "fp32" else 2
    norms = 10 * model.hidden_size
    if planned.cost.verdict == "comfortable" or not _helps(planned, norms):
        return
    yield Problem(
        f"parameters of up to {plan.param_persistence_threshold:,} elements stay whole on each GPU: {count(kept)} of"
        f" {count(model.num_parameters)}, {gib(kept * element_bytes)}; {norms:,} (10 x hidden size) keeps norms and"
        " biases only",
        planned.path("persistence"),
        fix=set_to(planned, persistence=norms),
    )


def _helps(planned: Planned, threshold: int) -> bool:
    """Whether a lower threshold brings the plan nearer to being comfortable, or saves memory and no time is lost."""
    other = planned.of_file.with_changes(param_persistence_threshold=threshold)
    saves = other.estimate.gpu.peak_allocated_bytes < planned.cost.gpu.peak_allocated_bytes
    return saves and (other.estimate.verdict != planned.cost.verdict or planned.of_file.is_no_slower(other))


def _matrices_within(model: ModelSpec, threshold: int) -> int:
    """Elements of the model's weight matrices that have at most so many; those of experts are left out."""
    width = model.hidden_size
    mlp = [width * model.intermediate_size] * (3 if model.gated_mlp else 2) if not model.num_experts else []
    block = [width * model.query_size] * 2 + [width * model.key_value_size] * 2 + mlp
    vocabularies = [model.embedding_parameters] * (1 if model.tied_embeddings else 2)
    return sum(size for size in (*vocabularies, *(block * model.num_layers)) if size <= threshold)


@rule("ZC313", "zero-on-one-gpu", severity="info")
def zero_on_one_gpu(planned: Planned) -> Iterator[Problem]:
    """ZeRO partitions over a single GPU.

    With one rank a partition is the whole: nothing is saved by it, and buckets and flat copies are paid for
    (runtime/zero/stage_1_and_2.py, runtime/zero/stage3.py; the textbook's 16 / N bytes per parameter at N = 1). What
    helps on one GPU is offload, recomputing activations, or training less (LoRA).

    Example:
        ```json model=gpt2 hardware=1xA100-80GB
        {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3}}
        ```

    Use instead:
        ```json model=gpt2 hardware=1xA100-80GB
        {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 0}}
        ```
    """
    plan, of_file = planned.plan, planned.of_file
    is_plain = plan.stage > 0 and plan.offload == "none"
    if planned.facts.cluster.num_gpus > 1 or not is_plain or not of_file.may_vary("zero_stage"):
        return
    without = of_file.with_changes(stage=0)
    if without.estimate.verdict == "comfortable" and of_file.is_no_slower(without):
        mine, other = (one.step.seconds_per_sample for one in (planned.cost, without.estimate))
        yield Problem(
            f"stage {plan.stage} has one GPU to partition over: stage 0 needs"
            f" {gib(without.estimate.gpu.peak_allocated_bytes)} of {gib(planned.cost.capacity_bytes)} and takes"
            f" {seconds(other)} per sample against {seconds(mine)}",
            planned.path("stage"),
            fix=set_to(planned, stage=0),
        )


@rule("ZC315", "heads-against-sequence-parallel-size", severity="warning")
def heads_against_sequence_parallel_size(config: DsConfig, model: ModelSpec) -> Iterator[Problem]:
    """sequence_parallel_size does not fit the model's attention heads.

    Ulysses gives each rank whole heads: "Attention head count 28 is not divisible by SP size 8", and of key and value
    heads one number must divide the other (runtime/sequence_parallel/ulysses_sp.py, UlyssesSPAttentionHF;
    DeepSpeed#4674). A warning, since a program may split its attention in another way.

    Example:
        ```json model=qwen2.5-7b
        {"train_micro_batch_size_per_gpu": 1, "sequence_parallel_size": 8, "zero_optimization": {"stage": 3}}
        ```

    Use instead:
        ```json model=qwen2.5-7b
        {"train_micro_batch_size_per_gpu": 1, "sequence_parallel_size": 4, "zero_optimization": {"stage": 3}}
        ```
    """
    size = whole(config, "sequence_parallel_size")
    if size is None or size <= 1:
        return
    heads, shared = model.num_attention_heads, model.num_key_value_heads
    path = config.path("sequence_parallel_size")
    if heads % size:
        yield Problem(
            f"sequence_parallel_size {size} does not divide the {heads} attention heads of {model.name}", path
        )
    elif shared % size and size % shared:
        yield Problem(f"{shared} key and value heads of {model.name} cannot be shared by {size} ranks", path)
