"""What would make it fit, when nothing does: each cure tried, with what it saves and costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeroconf.inputs.lora import with_lora
from zeroconf.plan.choose import decide
from zeroconf.plan.reasons import title as plan_title
from zeroconf.types import Candidate, Cure, Decision
from zeroconf.units import round_up, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.choices import Offload
    from zeroconf.types import Cluster, Estimate, Facts

_MOST_GPUS: Final = 4096
_LORA_RANK: Final = 16
_SHORTEST: Final = 128


def find_cures(decision: Decision) -> tuple[Cure, ...]:
    """The cures, those that make it fit first, then by what they save."""
    before = _least_bytes(decision)
    found = [_cure(before, *tried) for tried in _tries(decision.facts)]
    return tuple(sorted(found, key=lambda cure: (not cure.fits, -cure.saves_bytes)))


def cures_of_plan(facts: Facts, cost: Estimate) -> tuple[Cure, ...]:
    """What would make a given plan fit that does not: its buckets as ``generate`` sets them, or any other cure."""
    plan = cost.plan
    pinned = _with(
        facts,
        zero_stage=plan.stage,
        offload=plan.offload,
        micro_batch_size=plan.micro_batch_size,
        gradient_accumulation_steps=None,
        activation_checkpointing="full" if plan.activation_checkpointing else "none",
    )
    given = Candidate(plan=plan, estimate=cost, rejected_by="gpu_memory")
    own = _cure(
        cost.gpu.peak_allocated_bytes,
        "(as in the file)",
        "buckets as generate sets them",
        "smaller buckets, more calls",
        pinned,
    )
    others = find_cures(Decision(facts=pinned, chosen=None, candidates=(given,), reasons=()))
    return tuple(sorted((own, *others), key=lambda cure: (not cure.fits, -cure.saves_bytes)))


def _tries(facts: Facts) -> Iterator[tuple[str, str, str, Facts]]:
    """The options to add, a title, the cost, and the facts as those options give them."""
    workload, batch = facts.workload, f"--global-batch-size {facts.workload.global_batch_size}"
    # stage 0 offloads nothing, and bitsandbytes' optimizers cannot be
    if workload.offload == "none" and workload.zero_stage != 0 and not workload.optimizer_on_gpu:
        level, offloaded = _least_offload(facts)
        yield f"--offload {level}", "offload the optimizer or parameters", "CPU Adam and PCIe time", offloaded
    if workload.activation_checkpointing == "none":
        recompute = _with(facts, activation_checkpointing="full")
        yield "--activation-checkpointing full", "recompute activations", "a third more compute", recompute
    if workload.cross_entropy != "fused-linear" and facts.model.kind == "decoder":
        fused = _with(facts, cross_entropy="fused-linear")
        yield (
            "--cross-entropy fused-linear",
            "no logits in memory",
            "Liger's loss (use_liger_kernel in the Trainer)",
            fused,
        )
    if workload.zero_stage is not None and workload.zero_stage < 3:
        yield "--zero-stage 3", "partition parameters too", "an all-gather per pass", _with(facts, zero_stage=3)
    if workload.micro_batch_size not in (None, 1) and workload.gradient_accumulation_steps is None:
        smaller = _with(facts, micro_batch_size=1)
        yield f"--micro-batch-size 1 {batch}", "smaller micro batches", "more micro steps", smaller
    more = _more_gpus(facts)
    if more is not None:
        number = more.cluster.num_gpus
        more_batch = f"--global-batch-size {more.workload.global_batch_size}"
        cost = f"{number // facts.cluster.num_gpus}x the GPUs"
        yield f"{_hardware_option(more)} {more_batch}", f"{number} GPUs", cost, more
    shorter = _shorter(facts)
    if shorter is not None:
        length = shorter.workload.sequence_length
        yield f"--seq-len {length} {batch}", f"sequences of {length} tokens", "shorter context", shorter
    if workload.trainable_parameters is None:
        lora = _with(facts, lora_rank=_LORA_RANK, trainable_parameters=with_lora(facts.model, _LORA_RANK))
        yield f"--lora-rank {_LORA_RANK}", "train adapters only (LoRA)", "the base stays frozen", lora
    yield from _bitsandbytes_tries(facts)


def _bitsandbytes_tries(facts: Facts) -> Iterator[tuple[str, str, str, Facts]]:
    """8-bit optimizer states, and adapters on weights in 4 bits, where what was asked for leaves room for them."""
    workload = facts.workload
    own = workload.client_optimizer or facts.given is not None
    if workload.optimizer == "adamw" and not own and workload.offload in (None, "none"):
        eight = _with(facts, optimizer="adamw-8bit")
        yield "--optimizer adamw-8bit", "8-bit optimizer states", "bitsandbytes' AdamW in the script", eight
    if workload.quantize or workload.precision == "fp32" or workload.offload in ("all", "nvme"):
        return
    cost = "a frozen base in 4 bits"
    if workload.lora_rank:
        yield "--quantize nf4", "pack the frozen weights (QLoRA)", cost, _with(facts, quantize="nf4")
    elif workload.trainable_parameters is None:
        adapters = with_lora(facts.model, _LORA_RANK)
        packed = _with(facts, lora_rank=_LORA_RANK, trainable_parameters=adapters, quantize="nf4")
        yield f"--lora-rank {_LORA_RANK} --quantize nf4", "train adapters on packed weights (QLoRA)", cost, packed


def _with(facts: Facts, **changes: object) -> Facts:
    return replace(facts, workload=replace(facts.workload, **changes))  # type: ignore[arg-type]


def _hardware_option(facts: Facts) -> str:
    """How to ask for the cluster: on the command line, or in the inventory file that described its nodes."""
    cluster = facts.cluster
    if not cluster.node_name:
        return f"(in the inventory) nodes: {cluster.num_nodes}"
    if cluster.num_nodes == 1:
        return f"--hardware {cluster.node_name}"
    return f"--hardware {cluster.num_nodes}x{cluster.node_name}"


def _least_offload(facts: Facts) -> tuple[Offload, Facts]:
    """The first level of offload that fits, else the most that the stage takes."""
    levels: list[Offload] = ["optimizer"]
    if facts.workload.zero_stage in (None, 3) and not facts.workload.quantize:
        levels.append("all")
    for level in levels:
        tried = _with(facts, offload=level)
        if decide(tried).chosen is not None:
            break
    return level, tried


def _more_gpus(facts: Facts) -> Facts | None:
    """The smallest doubling of the GPUs that fits; only memory is judged, so any link between them will do.

    The global batch grows to a multiple of what one micro step of all GPUs takes; pinned sizes stay.
    """
    cluster, workload = facts.cluster, facts.workload
    pinned = (workload.micro_batch_size or 1) * (workload.gradient_accumulation_steps or 1)
    while cluster.num_gpus < _MOST_GPUS:
        cluster = _doubled(cluster)
        batch = round_up(workload.global_batch_size, cluster.num_gpus * pinned)
        if workload.micro_batch_size and workload.gradient_accumulation_steps:
            batch = cluster.num_gpus * pinned
        tried = _with(replace(facts, cluster=cluster), global_batch_size=batch)
        if decide(tried).chosen is not None:
            return tried
    return None


def _doubled(cluster: Cluster) -> Cluster:
    """Twice the GPUs: in the node while it is one of fewer than 8 that nothing else is known of, else in nodes."""
    per_node = cluster.gpus_per_node * 2
    counted = cluster.node_name == f"{cluster.gpus_per_node}x{cluster.gpu.name}"
    if cluster.num_nodes == 1 and per_node <= 8 and counted and cluster.host_memory_bytes is None:
        return replace(cluster, gpus_per_node=per_node, node_name=f"{per_node}x{cluster.gpu.name}")
    network = cluster.network or cluster.intra_node
    return replace(cluster, num_nodes=cluster.num_nodes * 2, network=network)


def _shorter(facts: Facts) -> Facts | None:
    """The longest halving of the sequence that fits, at the same global batch."""
    length = facts.workload.sequence_length // 2
    while length >= _SHORTEST:
        tried = _with(facts, sequence_length=length)
        if decide(tried).chosen is not None:
            return tried
        length //= 2
    return None


def _cure(before: int, option: str, title: str, cost: str, facts: Facts) -> Cure:
    after = decide(facts)
    if after.chosen is not None:
        pace = seconds(after.chosen.estimate.step.seconds_per_sample)
        cost = f"{cost}; {plan_title(after.chosen.plan)}, {pace} per sample"
    return Cure(
        option=option,
        title=title,
        saves_bytes=max(0, before - _least_bytes(after)),
        cost=cost,
        fits=after.chosen is not None,
    )


def _least_bytes(decision: Decision) -> int:
    """The smallest peak among the candidates that host memory and NVMe allow (all, if they allow none)."""
    allowed = [c for c in decision.candidates if c.rejected_by not in ("host_memory", "nvme")]
    return min(candidate.estimate.gpu.peak_allocated_bytes for candidate in allowed or decision.candidates)
