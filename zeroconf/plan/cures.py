"""What would make it fit, when nothing does: each cure tried, with what it saves and costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeroconf.inputs.lora import with_lora
from zeroconf.plan.choose import decide
from zeroconf.types import Cure, Decision
from zeroconf.units import round_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.types import Facts

_MOST_GPUS: Final = 4096
_LORA_RANK: Final = 16
_SHORTEST: Final = 128


def find_cures(decision: Decision) -> tuple[Cure, ...]:
    """The cures, those that make it fit first, then by what they save."""
    before = _least_bytes(decision)
    found = [_cure(before, *tried) for tried in _tries(decision.facts)]
    return tuple(sorted(found, key=lambda cure: (not cure.fits, -cure.saves_bytes)))


def _tries(facts: Facts) -> Iterator[tuple[str, str, str, Facts]]:
    """Option, title, cost, and the facts with the cure applied."""
    workload = facts.workload
    if workload.offload == "none":
        yield "--offload", "offload the optimizer or parameters", "CPU Adam and PCIe time", _with(facts, offload=None)
    if workload.activation_checkpointing == "none":
        recompute = _with(facts, activation_checkpointing="full")
        yield "--activation-checkpointing full", "recompute activations", "a third more compute", recompute
    if workload.zero_stage is not None and workload.zero_stage < 3:
        yield "--zero-stage 3", "partition parameters too", "an all-gather per pass", _with(facts, zero_stage=None)
    if workload.micro_batch_size not in (None, 1):
        smaller = _with(facts, micro_batch_size=1, gradient_accumulation_steps=None)
        yield "--micro-batch-size 1", "smaller micro batches", "more micro steps", smaller
    more = _more_gpus(facts)
    if more is not None:
        number = more.cluster.num_gpus
        name = f"{more.cluster.num_nodes}x{more.cluster.gpus_per_node}x{more.cluster.gpu.name}"
        yield f"--hardware {name}", f"{number} GPUs", f"{number // facts.cluster.num_gpus}x the GPUs", more
    shorter = _shorter(facts)
    if shorter is not None:
        length = shorter.workload.sequence_length
        yield f"--seq-len {length}", f"sequences of {length} tokens", "shorter context", shorter
    if workload.trainable_parameters is None:
        lora = _with(facts, lora_rank=_LORA_RANK, trainable_parameters=with_lora(facts.model, _LORA_RANK))
        yield f"--lora-rank {_LORA_RANK}", "train adapters only (LoRA)", "the base stays frozen", lora


def _with(facts: Facts, **changes: object) -> Facts:
    return replace(facts, workload=replace(facts.workload, **changes))  # type: ignore[arg-type]


def _more_gpus(facts: Facts) -> Facts | None:
    """The smallest doubling of the nodes that fits; only memory is judged, so any link between them will do."""
    cluster = facts.cluster
    while cluster.num_gpus < _MOST_GPUS:
        network = cluster.network or cluster.intra_node
        cluster = replace(cluster, num_nodes=cluster.num_nodes * 2, network=network)
        batch = round_up(facts.workload.global_batch_size, cluster.num_gpus)
        tried = replace(facts, cluster=cluster, workload=replace(facts.workload, global_batch_size=batch))
        if facts.workload.gradient_accumulation_steps is not None:
            tried = _with(tried, gradient_accumulation_steps=None)
        if decide(tried).chosen is not None:
            return tried
    return None


def _shorter(facts: Facts) -> Facts | None:
    """The longest halving of the sequence that fits."""
    length = facts.workload.sequence_length // 2
    while length >= _SHORTEST:
        tried = _with(facts, sequence_length=length)
        if decide(tried).chosen is not None:
            return tried
        length //= 2
    return None


def _cure(before: int, option: str, title: str, cost: str, facts: Facts) -> Cure:
    after = decide(facts)
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
