"""How many GPUs are needed, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.render.table import table
from zeroconf.render.text import OFFLOAD_WORDS
from zeroconf.units import gib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroconf.plan.needed import GpusNeeded
    from zeroconf.types import Facts


def needed_text(facts: Facts, needed: Sequence[GpusNeeded], link: str) -> str:
    """GPUs needed per stage, with the time per sample there."""
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
    offload = OFFLOAD_WORDS[facts.workload.offload or "none"].replace("-", "no offload")
    found = [entry.num_gpus for entry in needed if entry.num_gpus]
    number = found[-1] if found else 8
    count_words = f"{number}x{gpu.name}" if number <= 8 else f"{number // 8}x8x{gpu.name}"
    fewer = "" if facts.workload.offload else " (--offload optimizer or all asks for fewer)"
    closing = [
        f"In nodes of 8 over {link}, {offload}{fewer}. Nothing was written; for files give a number:",
        f"  zeroconf generate --model {facts.model.name} --hardware {count_words}",
    ]
    return "\n".join([title, "", *table(header, rows, right=header[1:]), "", *closing])
