"""Would the estimate have picked the fastest of what others measured: ``python benchmarks/choice.py``.

Each set below holds runs of one model on one machine with their published rates. The plans are ordered by our seconds
per sample; the regret is what our first would cost over the measured best: measured seconds of our pick by those of the
best, less one. A pair that was measured further apart than the set's noise and that we order otherwise is listed, with
what the source leaves open. Writes ``results/choice-DATE.json``.
"""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("DS_ACCELERATOR", "cpu")

from accuracy_rows import Row, rows
from step_time_rows import Timing

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Run:
    """One plan of a set: the row that gives its facts, what differs, and the measured seconds per sample or step."""

    name: str
    row: str
    measured: float
    changes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class RankingSet:
    """Plans for the same work. ``noise`` is the relative difference that the source's own repeats show."""

    name: str
    source: str
    runs: tuple[Run, ...]
    noise: float
    left_open: str = ""


def _of(**changes: Any) -> tuple[tuple[str, str], ...]:
    return tuple((key, str(value)) for key, value in changes.items())


_AUTOTUNING = "deepspeedai/DeepSpeedExamples autotuning/hf"
_BERT = {
    "bert-base": (12, 768, 3072, 12, 30522, 110_000_000, 235),
    "bert-large": (24, 1024, 4096, 16, 30522, 335_000_000, 93),
    "distilbert": (6, 768, 3072, 12, 30522, 66_000_000, 256),
}


def _bert(name: str, stage: int, rate: float, micro_batch: int | None = None) -> Run:
    """A GLUE run of the autotuning examples: fp32, 128 tokens, 16 V100."""
    layers, hidden, inner, heads, vocabulary, parameters, batch = _BERT[name]
    changes = _of(
        model=name,
        layers=layers,
        hidden=hidden,
        intermediate=inner,
        heads=heads,
        key_value_heads=heads,
        vocabulary=vocabulary,
        num_parameters=parameters,
        sequence_length=128,
        micro_batch=micro_batch or batch,
        precision="fp32",
        stage=stage,
    )
    return Run(f"stage {stage}", "dsauto-001", 1 / rate, changes)


_QWEN = _of(
    model="Qwen2.5-1.5B",
    num_parameters=1_543_714_304,
    layers=28,
    hidden=1536,
    intermediate=8960,
    heads=12,
    key_value_heads=2,
    vocabulary=151936,
    tied="yes",
    sequence_length=512,
    micro_batch=4,
    accumulation=1,
    gpu="A100-SXM4-40GB",
    gpus=2,
    gpus_per_node=2,
    checkpointing="none",
)
_LLAMA_2B = _of(
    model="Llama-2B",
    num_parameters=2_000_000_000,
    layers=24,
    hidden=2560,
    intermediate=6912,
    heads=20,
    key_value_heads=20,
    vocabulary=32000,
    sequence_length=2048,
    micro_batch=4,
    accumulation=1,
    gpu="A100-SXM4-40GB",
    gpus=16,
    gpus_per_node=4,
    network="100gbe",
    checkpointing="none",
)


def _as_measured(name: str, source: str, *ids: str, noise: float, left_open: str = "") -> RankingSet:
    """Rows of the timing tables, by tokens per second."""
    by_id = {row["id"]: row for row in rows("measured") + rows("timed")}
    runs = [
        Run(f"{one}: stage {by_id[one]['stage']}", one, 1 / float(by_id[one]["tokens_per_second_per_gpu"]))
        for one in ids
    ]
    return RankingSet(name, source, tuple(runs), noise, left_open)


def ranking_sets() -> list[RankingSet]:
    """Every published set."""
    nanotron = [
        _as_measured(
            f"1B, nanotron, {gpus} H100, micro batch {micro}",
            "huggingface ultrascale-playbook",
            *ids,
            noise=0.03,
            left_open="nanotron's own stage 1 gathers in pieces at 128 and 256 ranks; DeepSpeed's does not",
        )
        for gpus, micro, ids in (
            (8, 1, ("ultra-001", "ultra-002")),
            (16, 1, ("ultra-004", "ultra-005")),
            (32, 1, ("ultra-007", "ultra-008")),
            (64, 1, ("ultra-010", "ultra-011")),
            (128, 1, ("ultra-014", "ultra-015")),
            (128, 2, ("ultra-016", "ultra-017")),
            (256, 1, ("ultra-018", "ultra-019")),
        )
    ]
    berts = [
        RankingSet(name, _AUTOTUNING, tuple(_bert(name, *pair) for pair in rates), 0.03)
        for name, rates in (
            ("bert-base", ((0, 2930.18), (1, 2930.17), (2, 2744.16), (3, 2479.47, 238))),
            ("bert-large", ((0, 835.244), (1, 842.243), (2, 764.524, 94))),
            ("distilbert", ((0, 5759.96), (1, 5667.06), (2, 5366.97), (3, 4892.49))),
        )
    ]
    shard = _of(stage=3, framework="FSDP")
    return [
        _as_measured("gpt2", _AUTOTUNING, "dsauto-001", "dsauto-002", noise=0.03),
        _as_measured("gpt2-medium", _AUTOTUNING, "dsauto-003", "dsauto-004", "dsauto-005", noise=0.03),
        _as_measured(
            "gpt2-large",
            _AUTOTUNING,
            "dsauto-006",
            "dsauto-007",
            "dsauto-008",
            noise=0.03,
            left_open="stage 0 ran at the edge of memory: two samples took what three do at stage 1",
        ),
        _as_measured("gpt2-xl", _AUTOTUNING, "dsauto-010", "dsauto-011", "dsauto-012", noise=0.03),
        *berts,
        RankingSet(
            "Qwen2.5-1.5B on two A100",
            "DeepSpeed blog on ZenFlow and core binding",
            (
                Run("stage 2", "qwen-007", 0.240, (*_QWEN, *_of(stage=2))),
                Run("stage 2, CPU Adam", "qwen-007", 1.365, (*_QWEN, *_of(stage=2, offload_optimizer="cpu"))),
            ),
            0.1,
            "sequence length not stated: 512",
        ),
        *nanotron,
        RankingSet(
            "2B, FSDP on four nodes of four A100",
            "oumi-ai/oumi PR#213",
            (
                Run("sharded inside the node", "hfblog-001", 1 / 74.41, (*_LLAMA_2B, *shard, *_of(hpz=4))),
                Run("sharded over all", "hfblog-001", 1 / 55.349, (*_LLAMA_2B, *shard)),
            ),
            0.1,
            "shape, batch and network not stated: a Llama of width 2560, 4 x 2048 tokens, 100 Gb/s",
        ),
        _as_measured(
            "52B on 64 V100, each at its largest batch",
            "bigscience-workshop/bigscience experiments",
            "bigsci-005",
            "bigsci-010",
            "bigsci-011",
            noise=0.4,
            left_open="noise of the cluster up to 40 % by its own account, about two steps measured",
        ),
        _as_measured(
            "7B adapters on two RTX 3090",
            "AnswerDotAI/fsdp_qlora",
            "fsdpq-010",
            "fsdpq-007",
            noise=0.05,
            left_open="an old board with slow PCIe, of which the width is not stated",
        ),
        _as_measured(
            "7B adapters on two RTX 4090",
            "AnswerDotAI/fsdp_qlora",
            "fsdpq-014",
            "fsdpq-015",
            "fsdpq-016",
            noise=0.05,
        ),
        _as_measured("7B on four A100, FSDP and DeepSpeed", "HF blog", "hfblog-001", "hfblog-002", noise=0.03),
    ]


def _row(run: Run) -> Row:
    base = {row["id"]: row for row in rows("measured") + rows("timed")}[run.row]
    return {**base, **{key: value for key, value in run.changes if key != "hpz"}}


def predicted(run: Run) -> float:
    """Our seconds per sample."""
    return Timing(_row(run), int(dict(run.changes).get("hpz", 1))).step({}).seconds_per_sample


def judged(one: RankingSet) -> dict[str, Any]:
    """The set with both orders, the pairs that we order otherwise, and the regret."""
    costs = [(run, predicted(run)) for run in one.runs]
    pick = min(costs, key=lambda pair: pair[1])[0]
    best = min(one.runs, key=lambda run: run.measured)
    wrong = []
    for (first, first_cost), (second, second_cost) in itertools.combinations(costs, 2):
        apart = abs(first.measured / second.measured - 1) > one.noise
        if apart and (first.measured < second.measured) != (first_cost < second_cost):
            wrong.append([first.name, second.name])
    unit = one.runs[0].measured
    return {
        "set": one.name,
        "source": one.source,
        "measured_order": [run.name for run in sorted(one.runs, key=lambda run: run.measured)],
        "predicted_order": [run.name for run, _ in sorted(costs, key=lambda pair: pair[1])],
        "measured_ratios": {run.name: round(run.measured / unit, 3) for run in one.runs},
        "predicted_ratios": {run.name: round(cost / costs[0][1], 3) for run, cost in costs},
        "noise": one.noise,
        "pairs_ordered_otherwise": wrong,
        "regret": round(pick.measured / best.measured - 1, 4),
        "left_open": one.left_open,
    }


def main() -> None:
    """Judges, prints and writes."""
    found = [judged(one) for one in ranking_sets()]
    mean = sum(one["regret"] for one in found) / len(found)
    result = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "versions": {"deepspeed": version("deepspeed")},
        "sets": len(found),
        "sets_in_order": sum(not one["pairs_ordered_otherwise"] for one in found),
        "mean_regret": round(mean, 4),
        "rankings": found,
    }
    text = json.dumps(result, indent=1)
    print(text)
    (RESULTS / f"choice-{result['date']}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
