"""How many GPUs are needed, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.render.command import generate_command
from zeroconf.render.table import table
from zeroconf.render.text import OFFLOAD_WORDS
from zeroconf.units import gib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroconf.plan.needed import GpusNeeded
    from zeroconf.types import Facts

_NODE = 8


def needed_text(
    facts: Facts, needed: Sequence[GpusNeeded], given: Mapping[str, str | None], *, alone: bool = False
) -> str:
    """GPUs needed per stage, with the time per sample there, and unless ``alone`` the command for the fewest of them.

    It repeats the options that were ``given``.
    """
    header = ("stage", "GPUs", "GPU peak", "s/sample", "GPU-seconds/sample")
    rows = []
    for entry in needed:
        if entry.candidate is None or entry.num_gpus is None:
            rows.append((str(entry.stage), "none", "-", "-", "-"))
            continue
        cost = entry.candidate.estimate
        per_sample = cost.step.seconds_per_sample
        rows.append(
            (
                str(entry.stage),
                str(entry.num_gpus),
                gib(cost.gpu.peak_allocated_bytes),
                f"{per_sample:.3g}",
                f"{per_sample * entry.num_gpus:.3g}",
            )
        )
    gpu = facts.cluster.gpu
    free = f"leaves {facts.workload.headroom:.0%} free"
    title = f"{facts.model.name}: smallest number of {gpu.name} ({gib(gpu.memory_bytes)}) that {free}"
    answer = [title, "", *table(header, rows, right=header[1:])]
    if alone:
        return "\n".join(answer)
    advice = "Nothing was written; for files give a number:"
    if not any(entry.num_gpus for entry in needed):
        advice = "No number is enough at any stage; what would help, for one node:"
    # between 1 and 2 there is none
    is_rounded = any(entry.num_gpus and entry.num_gpus > 2 for entry in needed)
    tried = "Tried are 1, 2, 4, 8 and some numbers of whole nodes: one between may be enough."
    closing = [
        *_nodes(facts),
        *([tried] if is_rounded else []),
        advice,
        f"  {generate_command(given, _changes(facts, needed))}",
    ]
    return "\n".join([*answer, "", *closing])


def _nodes(facts: Facts) -> list[str]:
    """What the nodes are taken to be and have."""
    cluster, workload = facts.cluster, facts.workload
    over = f" over {cluster.network.name}" if cluster.network else ""
    offload = OFFLOAD_WORDS[workload.offload or "none"].replace("-", "no offload")
    fewer = "" if workload.offload else " (--offload optimizer or all may ask for fewer)"
    lines = [f"In nodes of 8{over}, {offload}{fewer}."]
    if cluster.host_memory_bytes is not None:
        lines.append(f"A node has {gib(cluster.host_memory_bytes)} of host memory, whatever its number of GPUs.")
    elif workload.offload not in (None, "none"):
        each = gib(cluster.host_limit_bytes / cluster.gpus_per_node, 0)
        lines.append(f"Up to {each} of host memory for each GPU is taken to be there (--host-memory says otherwise).")
    return lines


def _changes(facts: Facts, needed: Sequence[GpusNeeded]) -> dict[str, str]:
    """The options of the fewest GPUs, of one node where nothing fits; the batch is rounded up to a multiple of them."""
    enough = [(entry.num_gpus, entry.candidate) for entry in needed if entry.num_gpus and entry.candidate]
    number, candidate = min(enough, key=lambda one: one[0], default=(_NODE, None))
    shape = f"{number}" if number <= _NODE else f"{number // _NODE}x{_NODE}"
    changes = {"--hardware": f"{shape}x{facts.cluster.gpu.name}"}
    if candidate is not None:
        plan, ranks = candidate.plan, number // facts.workload.ranks_per_sample
        batch = plan.micro_batch_size * plan.gradient_accumulation_steps * ranks
        changes |= {} if batch == facts.workload.global_batch_size else {"--global-batch-size": str(batch)}
    return changes
