"""What a user could change where nothing fits: each change with its option, its cost and the facts that it gives.

A change is a function from facts to its levels, the least first; one that cannot be made has none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.inputs.lora import with_lora
from zeroconf.plan import hardware
from zeroconf.plan.candidates import OFFLOAD_LEVELS, is_refused, offloads
from zeroconf.plan.search import search
from zeroconf.units import round_up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zeroconf.choices import Offload, Precision
    from zeroconf.types import Candidate, Cluster, Facts

    Change = Callable[["Facts"], Sequence["Level"]]

_LORA_RANK: Final = 16
_SHORTEST: Final = 128
_QUANTIZATIONS: Final = ("nf4", "nf4-double")


class Level(NamedTuple):
    """The options to add, a title, the cost, the facts that they give, and whether only adapters train then."""

    options: dict[str, object]
    title: str
    cost: str
    facts: Facts
    adapters: bool = False


def partition(facts: Facts) -> list[Level]:
    """Stage 3 in the place of a pinned lower one."""
    if facts.workload.zero_stage in (None, 3) or is_refused(facts, 3):
        return []
    changed = with_workload(facts, zero_stage=3)
    return [Level({"--zero-stage": 3}, "partition parameters too", "an all-gather per pass", changed)]


def offload(facts: Facts) -> list[Level]:
    """The levels beyond a pinned one that the stage takes."""
    pinned = facts.workload.offload
    beyond = [] if pinned is None else OFFLOAD_LEVELS[OFFLOAD_LEVELS.index(pinned) + 1 :]
    return _offloading(facts, beyond, "offload the optimizer or parameters", "CPU Adam and PCIe time")


def less_offload(facts: Facts) -> list[Level]:
    """The levels below a pinned one, which need less of the node, or another part of it."""
    pinned = facts.workload.offload
    below = [] if pinned is None else OFFLOAD_LEVELS[: OFFLOAD_LEVELS.index(pinned)]
    return _offloading(facts, below[::-1], "offload less", "GPU memory")


def _offloading(facts: Facts, levels: Sequence[Offload], title: str, cost: str) -> list[Level]:
    workload, free = facts.workload, with_workload(facts, offload=None)
    stages = [stage for stage in range(4) if workload.zero_stage in (None, stage) and not is_refused(free, stage)]
    taken = {level for stage in stages for level in offloads(free.cluster, free.workload, stage)}
    return [
        Level({"--offload": level}, title, cost, with_workload(facts, offload=level))
        for level in levels
        if level in taken
    ]


def recompute(facts: Facts) -> list[Level]:
    """Activation checkpointing, where it was ruled out."""
    if facts.workload.activation_checkpointing != "none":
        return []
    changed = with_workload(facts, activation_checkpointing="full")
    return [Level({"--activation-checkpointing": "full"}, "recompute activations", "a third more compute", changed)]


def fused_loss(facts: Facts) -> list[Level]:
    """A loss that keeps no logits."""
    if facts.workload.cross_entropy == "fused-linear" or facts.model.kind != "decoder":
        return []
    changed = with_workload(facts, cross_entropy="fused-linear")
    cost = "Liger's loss (use_liger_kernel in the Trainer)"
    return [Level({"--cross-entropy": "fused-linear"}, "no logits in memory", cost, changed)]


def smaller_micro_batch(facts: Facts) -> list[Level]:
    """One sequence in each micro step, where a pinned micro batch or accumulation makes it more."""
    workload = facts.workload
    micro, steps = workload.micro_batch_size, workload.gradient_accumulation_steps
    per_gpu = workload.global_batch_size // facts.data_parallel_size
    if micro == 1 or (micro is None and steps in (None, per_gpu)):
        return []
    options: dict[str, object] = {"--micro-batch-size": 1}
    if steps is not None:
        options["--gradient-accumulation"] = steps = per_gpu
    options["--global-batch-size"] = workload.global_batch_size
    changed = with_workload(facts, micro_batch_size=1, gradient_accumulation_steps=steps)
    return [Level(options, "smaller micro batches", "more micro steps", changed)]


def half_precision(facts: Facts) -> list[Level]:
    """16 bits in the place of fp32."""
    if facts.workload.precision != "fp32":
        return []
    half: Precision = "bf16" if facts.cluster.gpu.bf16 else "fp16"
    changed = with_workload(facts, precision=half)
    return [Level({"--precision": half}, f"compute in {half}", "rounding of weights", changed)]


def eight_bit(facts: Facts) -> list[Level]:
    """Optimizer states in 8 bits, which stay on the GPU."""
    workload = facts.workload
    own = workload.client_optimizer or facts.given is not None
    if workload.optimizer != "adamw" or own or workload.offload not in (None, "none"):
        return []
    changed = with_workload(facts, optimizer="adamw-8bit")
    cost = "bitsandbytes' AdamW in the script"
    return [Level({"--optimizer": "adamw-8bit"}, "8-bit optimizer states", cost, changed)]


def host_memory(facts: Facts) -> list[Level]:
    """The least host memory with which something fits."""
    needed = _least_host(facts, _fitting(facts, host=True))
    if needed is None:
        return []
    cluster, size = needed
    changed = replace(facts, cluster=cluster)
    return [Level({"--host-memory": size}, "more host memory", "memory in each node", changed)]


def nvme(facts: Facts) -> list[Level]:
    """The smallest disk for the optimizer with which something fits, with more host memory where that is needed."""
    found = _fitting(facts, disk=True)
    beside: dict[str, object] = {}
    if not found:
        found = _fitting(facts, disk=True, host=True)
        needed = _least_host(facts, found)
        if needed is None:
            return []
        cluster, size = needed
        facts, beside = replace(facts, cluster=cluster), {"--host-memory": size}
        found = [one for one in found if one.estimate.host.peak_bytes <= cluster.host_limit_bytes]
    smallest = min(found, key=lambda one: one.estimate.nvme_bytes)
    with_disk = hardware.with_nvme(facts.cluster, smallest.estimate.nvme_bytes)
    if with_disk is None:
        return []
    cluster, words = with_disk
    if facts.cluster.nvme and cluster.nvme and cluster.nvme.capacity_bytes <= facts.cluster.nvme.capacity_bytes:
        return []
    cost = "a local disk in each node" + (" and memory" if beside else "")
    return [Level(beside | {"--nvme": words}, "optimizer on NVMe", cost, replace(facts, cluster=cluster))]


def _fitting(facts: Facts, *, host: bool = False, disk: bool = False) -> list[Candidate]:
    """What fits with ample host memory, or of what uses it with ample NVMe."""
    if not hardware.is_extensible(facts.cluster):
        return []
    tried = replace(facts, cluster=hardware.ample(facts.cluster, host=host, nvme=disk))
    found = [one for one in search(tried) if one.rejected_by is None]
    return [one for one in found if one.plan.offload == "nvme"] if disk else found


def _least_host(facts: Facts, fitting: Sequence[Candidate]) -> tuple[Cluster, str] | None:
    if not fitting:
        return None
    return hardware.with_host_memory(facts.cluster, min(one.estimate.host.peak_bytes for one in fitting))


def more_gpus(facts: Facts) -> list[Level]:
    """Doublings of the GPUs."""
    return [_more(facts, on_cluster(facts, cluster)) for cluster in hardware.more_gpus(facts.cluster)]


def _more(before: Facts, facts: Facts) -> Level:
    cluster, number = facts.cluster, facts.cluster.num_gpus
    options = hardware.option(cluster) | {"--global-batch-size": facts.workload.global_batch_size}
    link = f" over {cluster.network.name}" if cluster.network else ""
    return Level(options, f"{number} GPUs", f"{number // before.cluster.num_gpus}x the GPUs{link}", facts)


def on_cluster(facts: Facts, cluster: Cluster) -> Facts:
    """The same job there.

    The global batch grows to a multiple of what one micro step of all GPUs takes; pinned sizes stay.
    """
    workload = facts.workload
    data_parallel = cluster.num_gpus // workload.ranks_per_sample
    pinned = (workload.micro_batch_size or 1) * (workload.gradient_accumulation_steps or 1)
    batch = round_up(workload.global_batch_size, data_parallel * pinned)
    if workload.micro_batch_size and workload.gradient_accumulation_steps:
        batch = data_parallel * pinned
    return with_workload(replace(facts, cluster=cluster), global_batch_size=batch)


def larger_card(facts: Facts) -> list[Level]:
    """As many larger cards."""
    old = facts.cluster.gpu.name
    return [
        Level(
            hardware.option(cluster),
            f"{cluster.gpu.name} instead of {old}",
            f"{cluster.gpu.name} instead of {old}",
            replace(facts, cluster=cluster),
        )
        for cluster in hardware.larger_cards(facts.cluster)
    ]


def shorter_sequence(facts: Facts) -> list[Level]:
    """Halvings of the sequence at the same global batch."""
    levels = []
    length = facts.workload.sequence_length // 2
    while length >= _SHORTEST:
        options: dict[str, object] = {
            "--seq-len": length,
            "--global-batch-size": facts.workload.global_batch_size,
        }
        changed = with_workload(facts, sequence_length=length)
        levels.append(Level(options, f"sequences of {length} tokens", "shorter context", changed))
        length //= 2
    return levels


def lora(facts: Facts) -> list[Level]:
    """Adapters on every linear layer, where everything trained."""
    if facts.workload.trainable_parameters is not None:
        return []
    changed = with_workload(facts, lora_rank=_LORA_RANK, trainable_parameters=with_lora(facts.model, _LORA_RANK))
    title, cost = "train adapters only (LoRA)", "the base stays frozen"
    return [Level({"--lora-rank": _LORA_RANK}, title, cost, changed, adapters=True)]


def packed(facts: Facts) -> list[Level]:
    """Adapters on weights in 4 bits, where what was asked for leaves room for them; then their maxima packed too."""
    workload = facts.workload
    done = 0 if workload.quantize is None else _QUANTIZATIONS.index(workload.quantize) + 1
    if workload.precision == "fp32" or workload.offload in ("all", "nvme"):
        return []
    options: dict[str, object] = {}
    title = "pack the frozen weights (QLoRA)"
    adapters = workload.lora_rank is None
    if adapters:
        if not (made := lora(facts)):
            return []
        options, facts, title = made[0].options, made[0].facts, "train adapters on packed weights (QLoRA)"
    return [
        Level(
            options | {"--quantize": name},
            title,
            "a frozen base in 4 bits",
            with_workload(facts, quantize=name),
            adapters,
        )
        for name in _QUANTIZATIONS[done:]
    ]


def with_workload(facts: Facts, **changes: object) -> Facts:
    """The facts with some values of the workload changed."""
    return replace(facts, workload=replace(facts.workload, **changes))  # type: ignore[arg-type]
