"""What would make it fit, when nothing does: each cure tried, with what it saves and costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.inputs.gpus import read_gpu
from zeroconf.inputs.lora import with_lora
from zeroconf.plan.candidates import OFFLOAD_LEVELS, offloads
from zeroconf.plan.choose import cost_of_pins, decide
from zeroconf.plan.reasons import title as plan_title
from zeroconf.plan.search import fits
from zeroconf.types import Candidate, Cure, Decision
from zeroconf.units import round_up, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zeroconf.choices import Precision
    from zeroconf.types import Cluster, Estimate, Facts

    _Change = Callable[["Facts"], "_Try | None"]

_MOST_GPUS: Final = 4096
_LORA_RANK: Final = 16
_SHORTEST: Final = 128
# what can be rented, by memory
_LARGER_CARDS: Final = ("A100-80GB", "H200", "B200", "B300")


def decide_with_cures(facts: Facts) -> Decision:
    """The search's outcome, with cures when nothing fits, else with what the pinned choices cost."""
    decision = decide(facts)
    if decision.chosen is None:
        return replace(decision, cures=find_cures(decision))
    return replace(decision, notes=(*decision.notes, *cost_of_pins(decision)))


def find_cures(decision: Decision) -> tuple[Cure, ...]:
    """The cures: those that fit first, of these the ones that train the same weights, then by what they save.

    Several together where none alone is enough for the same weights.
    """
    before = _least_bytes(decision)
    found = [(tried.adapters, _cure(before, tried)) for tried in _each_alone(decision.facts)]
    if not any(cure.fits and not adapters for adapters, cure in found) and (together := _together(decision.facts)):
        found.append((together.adapters, _cure(before, together)))
    ranked = sorted(found, key=lambda one: (not one[1].fits, one[0], -one[1].saves_bytes))
    return tuple(cure for _, cure in ranked)


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
    as_generated = _Try(
        {"(as in the file)": ""}, "buckets as generate sets them", "smaller buckets, more calls", pinned
    )
    own = _cure(cost.gpu.peak_allocated_bytes, as_generated)
    others = find_cures(Decision(facts=pinned, chosen=None, candidates=(given,), reasons=()))
    return tuple(sorted((own, *others), key=lambda cure: (not cure.fits, -cure.saves_bytes)))


class _Try(NamedTuple):
    """The options to add, a title, the cost, the facts that they give, and whether only adapters train then."""

    options: dict[str, object]
    title: str
    cost: str
    facts: Facts
    adapters: bool = False


def _stage(facts: Facts) -> _Try | None:
    if facts.workload.zero_stage in (None, 3):
        return None
    changed = _with(facts, zero_stage=3)
    return _Try({"--zero-stage": 3}, "partition parameters too", "an all-gather per pass", changed)


def _offload(facts: Facts) -> _Try | None:
    """The first level beyond the pinned one that fits, else the last that the stage takes."""
    workload = facts.workload
    levels = [] if workload.offload is None else OFFLOAD_LEVELS[OFFLOAD_LEVELS.index(workload.offload) + 1 :]
    free = _with(facts, offload=None)
    taken = {level for stage in range(4) if workload.zero_stage in (None, stage)
             for level in offloads(free.cluster, free.workload, stage)}  # fmt: skip
    tries = [(level, _with(facts, offload=level)) for level in levels if level in taken]
    if not tries:
        return None
    level, changed = next((one for one in tries if fits(one[1])), tries[-1])
    return _Try({"--offload": level}, "offload the optimizer or parameters", "CPU Adam and PCIe time", changed)


def _recompute(facts: Facts) -> _Try | None:
    if facts.workload.activation_checkpointing != "none":
        return None
    changed = _with(facts, activation_checkpointing="full")
    return _Try({"--activation-checkpointing": "full"}, "recompute activations", "a third more compute", changed)


def _fused_loss(facts: Facts) -> _Try | None:
    if facts.workload.cross_entropy == "fused-linear" or facts.model.kind != "decoder":
        return None
    changed = _with(facts, cross_entropy="fused-linear")
    cost = "Liger's loss (use_liger_kernel in the Trainer)"
    return _Try({"--cross-entropy": "fused-linear"}, "no logits in memory", cost, changed)


def _smaller_micro_batch(facts: Facts) -> _Try | None:
    """One sequence in each micro step, where a pinned micro batch or accumulation makes it more."""
    workload = facts.workload
    micro, steps = workload.micro_batch_size, workload.gradient_accumulation_steps
    per_gpu = workload.global_batch_size // facts.data_parallel_size
    if micro == 1 or (micro is None and steps in (None, per_gpu)):
        return None
    options: dict[str, object] = {"--micro-batch-size": 1}
    if steps is not None:
        options["--gradient-accumulation"] = steps = per_gpu
    options["--global-batch-size"] = workload.global_batch_size
    changed = _with(facts, micro_batch_size=1, gradient_accumulation_steps=steps)
    return _Try(options, "smaller micro batches", "more micro steps", changed)


def _half_precision(facts: Facts) -> _Try | None:
    if facts.workload.precision != "fp32":
        return None
    half: Precision = "bf16" if facts.cluster.gpu.bf16 else "fp16"
    return _Try({"--precision": half}, f"compute in {half}", "rounding of weights", _with(facts, precision=half))


def _eight_bit(facts: Facts) -> _Try | None:
    workload = facts.workload
    own = workload.client_optimizer or facts.given is not None
    if workload.optimizer != "adamw" or own or workload.offload not in (None, "none"):
        return None
    changed = _with(facts, optimizer="adamw-8bit")
    cost = "bitsandbytes' AdamW in the script"
    return _Try({"--optimizer": "adamw-8bit"}, "8-bit optimizer states", cost, changed)


def _more_gpus(facts: Facts) -> _Try | None:
    """The smallest doubling of the GPUs that fits; only memory is judged, so any link between them will do."""
    clusters = [facts.cluster]
    while clusters[-1].num_gpus < _MOST_GPUS:
        clusters.append(_doubled(clusters[-1]))
    changed = _first_that_fits([_on(facts, cluster) for cluster in clusters[1:]])
    if changed is None:
        return None
    number, batch = changed.cluster.num_gpus, changed.workload.global_batch_size
    options: dict[str, object] = dict([_hardware_option(changed.cluster)]) | {"--global-batch-size": batch}
    return _Try(options, f"{number} GPUs", f"{number // facts.cluster.num_gpus}x the GPUs", changed)


def _on(facts: Facts, cluster: Cluster) -> Facts:
    """The global batch grows to a multiple of what one micro step of all GPUs takes; pinned sizes stay."""
    workload = facts.workload
    data_parallel = cluster.num_gpus // workload.ranks_per_sample
    pinned = (workload.micro_batch_size or 1) * (workload.gradient_accumulation_steps or 1)
    batch = round_up(workload.global_batch_size, data_parallel * pinned)
    if workload.micro_batch_size and workload.gradient_accumulation_steps:
        batch = data_parallel * pinned
    return _with(replace(facts, cluster=cluster), global_batch_size=batch)


def _first_that_fits(tries: list[Facts]) -> Facts | None:
    """Of tries that need less and less memory; when the last one does not fit, none does."""
    if not tries or not fits(tries[-1]):
        return None
    return next(tried for tried in tries if fits(tried))


def _larger_card(facts: Facts) -> _Try | None:
    """As many of the smallest larger card that is enough."""
    cluster = facts.cluster
    if not cluster.node_name:
        return None
    for name in _LARGER_CARDS:
        gpu, _ = read_gpu(name)
        node = f"{cluster.gpus_per_node}x{gpu.name}"
        # an instance's disks stay behind with it
        nvme = cluster.nvme if _is_counted(cluster) else None
        larger = replace(cluster, gpu=gpu, intra_node=gpu.intra_node, node_name=node, nvme=nvme)
        changed = replace(facts, cluster=larger)
        if gpu.memory_bytes > cluster.gpu.memory_bytes and fits(changed):
            return _Try(dict([_hardware_option(larger)]), f"{gpu.name} instead of {cluster.gpu.name}", "cards", changed)
    return None


def _shorter_sequence(facts: Facts) -> _Try | None:
    """The longest halving of the sequence that fits, at the same global batch."""
    lengths = [facts.workload.sequence_length // 2]
    while lengths[-1] // 2 >= _SHORTEST:
        lengths.append(lengths[-1] // 2)
    changed = _first_that_fits([_with(facts, sequence_length=length) for length in lengths if length >= _SHORTEST])
    if changed is None:
        return None
    length = changed.workload.sequence_length
    options: dict[str, object] = {"--seq-len": length, "--global-batch-size": facts.workload.global_batch_size}
    return _Try(options, f"sequences of {length} tokens", "shorter context", changed)


def _lora(facts: Facts) -> _Try | None:
    if facts.workload.trainable_parameters is not None:
        return None
    changed = _with(facts, lora_rank=_LORA_RANK, trainable_parameters=with_lora(facts.model, _LORA_RANK))
    return _Try(
        {"--lora-rank": _LORA_RANK}, "train adapters only (LoRA)", "the base stays frozen", changed, adapters=True
    )


def _packed(facts: Facts) -> _Try | None:
    """Adapters on weights in 4 bits, where what was asked for leaves room for them."""
    workload = facts.workload
    if workload.quantize or workload.precision == "fp32" or workload.offload in ("all", "nvme"):
        return None
    cost = "a frozen base in 4 bits"
    if workload.lora_rank:
        return _Try({"--quantize": "nf4"}, "pack the frozen weights (QLoRA)", cost, _with(facts, quantize="nf4"))
    adapters = _lora(facts)
    if adapters is None:
        return None
    options = adapters.options | {"--quantize": "nf4"}
    return _Try(options, "train adapters on packed weights (QLoRA)", cost, _with(adapters.facts, quantize="nf4"), True)


# what costs only time first, then hardware, then what makes it another job
_CHANGES: Final[tuple[_Change, ...]] = (
    _stage,
    _offload,
    _recompute,
    _fused_loss,
    _smaller_micro_batch,
    _half_precision,
    _eight_bit,
    _more_gpus,
    _larger_card,
    _shorter_sequence,
    _lora,
    _packed,
)


def _each_alone(facts: Facts) -> list[_Try]:
    alone = (change for change in _CHANGES if change is not _larger_card)  # only where nothing else helps
    return [tried for change in alone if (tried := change(facts)) is not None]


def _together(facts: Facts) -> _Try | None:
    """The first changes in their order that are enough together, without those that are not needed."""
    needed: list[_Change] = []
    changed = facts
    for change in _CHANGES:
        if (tried := change(changed)) is None:
            continue
        needed.append(change)
        changed = tried.facts
        if fits(changed):
            break
    else:
        return None
    for change in needed[:-1]:
        fewer = [one for one in needed if one is not change]
        if (tried := _applied(facts, fewer)) and fits(tried.facts):
            needed = fewer
    return _applied(facts, needed)


def _applied(facts: Facts, changes: Sequence[_Change]) -> _Try | None:
    """Several changes as one, each made on top of those before; None when none of them changes anything."""
    options: dict[str, object] = {}
    made = []
    for change in changes:
        tried = change(facts)
        if tried is not None:
            made.append(tried)
            options |= tried.options
            facts = tried.facts
    if not made:
        return None
    title, cost = (", ".join(words) for words in zip(*((one.title, one.cost) for one in made), strict=True))
    return _Try(options, title, cost, facts, any(one.adapters for one in made))


def _with(facts: Facts, **changes: object) -> Facts:
    return replace(facts, workload=replace(facts.workload, **changes))  # type: ignore[arg-type]


def _hardware_option(cluster: Cluster) -> tuple[str, object]:
    """How to ask for the cluster: on the command line, or in the inventory file that described its nodes."""
    if not cluster.node_name:
        return "(in the inventory) nodes:", cluster.num_nodes
    if cluster.num_nodes == 1:
        return "--hardware", cluster.node_name
    return "--hardware", f"{cluster.num_nodes}x{cluster.node_name}"


def _is_counted(cluster: Cluster) -> bool:
    """Whether it was given as a number of cards, not as an instance."""
    return cluster.node_name == f"{cluster.gpus_per_node}x{cluster.gpu.name}"


def _doubled(cluster: Cluster) -> Cluster:
    """Twice the GPUs: in the node while it is one of fewer than 8 that nothing else is known of, else in nodes."""
    per_node = cluster.gpus_per_node * 2
    if cluster.num_nodes == 1 and per_node <= 8 and _is_counted(cluster) and cluster.host_memory_bytes is None:
        return replace(cluster, gpus_per_node=per_node, node_name=f"{per_node}x{cluster.gpu.name}")
    network = cluster.network or cluster.intra_node
    return replace(cluster, num_nodes=cluster.num_nodes * 2, network=network)


def _cure(before: int, tried: _Try) -> Cure:
    after, cost = decide(tried.facts), tried.cost
    if after.chosen is not None:
        pace = seconds(after.chosen.estimate.step.seconds_per_sample)
        cost = f"{cost}; {plan_title(after.chosen.plan)}, {pace} per sample"
    return Cure(
        option=" ".join(f"{option} {value}".strip() for option, value in tried.options.items()),
        title=tried.title,
        saves_bytes=max(0, before - _least_bytes(after)),
        cost=cost,
        fits=after.chosen is not None,
    )


def _least_bytes(decision: Decision) -> int:
    """The smallest peak among the candidates that host memory and NVMe allow (all, if they allow none)."""
    allowed = [c for c in decision.candidates if c.rejected_by not in ("host_memory", "nvme")]
    return min(candidate.estimate.gpu.peak_allocated_bytes for candidate in allowed or decision.candidates)
