"""Plans of the grid on DeepSpeed's engine: is what fits, and what does not, called so?

Half are what ``generate`` chose, half candidates that it refused for the card's memory; of both, most are near the
card's capacity.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from generate_cases import Options, cases

from zeroconf import api
from zeroconf.emit.ds_config import ds_config
from zeroconf.inputs.model import model_source
from zeroconf.smoke.job import SmokeJob

ORACLE: Final = Path(__file__).resolve().parent / "memory_oracle"

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.types import Candidate, Facts, Plan

SEED: Final = 2
_TRIED: Final = 500
_MOST_PARAMETERS, _MOST_RANKS = 13.5e9, 64
_FARTHEST: Final = 2.0  # of the card: what nobody would take for a plan that fits is left out
_RUN_SECONDS: Final = 3600  # a 70B beside other work
LARGE: Final[tuple[Options, ...]] = (
    {"model": "llama-3.1-70b", "hardware": "8x8xA100-80GB", "network": "ib-hdr", "reader": "deepspeed"},
    {"model": "qwen2.5-72b", "hardware": "4x8xA100-40GB", "network": "ib-hdr", "zero_stage": 3, "offload": "none"},
)


@dataclass(frozen=True, slots=True)
class Trial:
    """A plan and its facts."""

    name: str
    facts: Facts
    candidate: Candidate

    @property
    def fullness(self) -> float:
        """The predicted peak as a share of the card."""
        return _fullness(self.candidate)

    @property
    def key(self) -> str:
        """A short name, for files, of all that runs."""
        text = self.name + json.dumps(ds_config(self.facts, self.candidate.plan))
        return f"{self.facts.model.name}-{zlib.crc32(text.encode()):08x}"

    @property
    def fits(self) -> bool:
        """What was predicted."""
        return self.candidate.estimate.verdict != "does-not-fit"


def trials(number: int) -> list[Trial]:
    """So many, two of 70B among them; half of each kind, two in three of them the nearest to the card's capacity."""
    rng = random.Random(SEED)
    found = [trial for options in cases(_TRIED, SEED) for trial in _of_case(options)]
    large = [trial for options in LARGE for trial in _of_case(options, large=True)]
    chosen = [
        next(trial for trial in large if trial.fits and trial.candidate.plan.stage == 3),
        min((trial for trial in large if not trial.fits), key=lambda trial: abs(trial.fullness - 1)),
    ]
    for fits in (True, False):
        pool = sorted((trial for trial in found if trial.fits is fits), key=lambda trial: abs(trial.fullness - 1))
        near = (number - len(large)) // 3
        others = number // 2 - 1 - near
        chosen += [*pool[:near], *rng.sample(pool[near:], others)]
    return chosen


def _of_case(options: Options, *, large: bool = False) -> Iterator[Trial]:
    """What was chosen, and of what the card's memory refuses the nearest to its capacity."""
    facts, _ = api.load_facts(options)
    if not _is_suited(facts) and not large:
        return
    decision = api.decide(facts)
    candidates = decision.candidates
    refused = [candidate for candidate in candidates if candidate.rejected_by == "gpu_memory"]
    nearest = sorted(refused, key=lambda candidate: abs(_fullness(candidate) - 1))[:1]
    for candidate in ([decision.chosen] if decision.chosen else []) + nearest:
        plan = candidate.plan
        text = " ".join(f"{name}={value}" for name, value in options.items())
        name = f"{text} -> stage {plan.stage} offload {plan.offload} {plan.micro_batch_size}x"
        name += f"{plan.gradient_accumulation_steps}{' recompute' if plan.activation_checkpointing else ''}"
        if _fullness(candidate) < _FARTHEST and _is_built(facts, plan):
            yield Trial(name, facts, candidate)


def _fullness(candidate: Candidate) -> float:
    """The predicted peak as a share of the card."""
    return candidate.estimate.gpu.peak_allocated_bytes / candidate.estimate.capacity_bytes


def _is_suited(facts: Facts) -> bool:
    """Runs in seconds, and has nothing that a smoke test has not."""
    work = facts.workload
    small = facts.model.num_parameters <= _MOST_PARAMETERS and facts.cluster.num_gpus <= _MOST_RANKS
    plain = work.cross_entropy == "torch" and not work.frozen_parameters and facts.model.kind == "decoder"
    short = work.sequence_length <= (facts.model.max_sequence_length or work.sequence_length)
    return small and plain and short and not work.client_optimizer


def _is_built(facts: Facts, plan: Plan) -> bool:
    """Whether the smoke test has the optimizer: one of the file's, or a script's AdamW."""
    by_script = facts.script_builds_optimizer(offloaded=plan.offload != "none")
    return not by_script or facts.workload.optimizer in ("adam", "adamw")


def _case(trial: Trial) -> Any:
    """The job that ``zeroconf smoke-test --dry-run`` makes of the file and the command that ``generate`` prints."""
    facts, plan = trial.facts, trial.candidate.plan
    source = model_source(facts.model.name)
    job = SmokeJob(
        ds_config=ds_config(facts, plan),
        architecture=asdict(facts.model) | {"config": source},
        sequence_length=facts.workload.sequence_length,
        activation_checkpointing=plan.activation_checkpointing,
        attention="eager" if facts.workload.attention == "eager" else "sdpa",
        lora_rank=facts.workload.lora_rank or 0,
        bf16=facts.cluster.gpu.bf16,
        gpus_per_node=facts.cluster.gpus_per_node,
        mode="dry-run",
        world_size=facts.cluster.num_gpus,
    )
    return importlib.import_module("cases").Case(name=trial.key, job=job, model=facts.model)


def run_all(chosen: list[Trial], logs: Path, kept: Path | None, jobs: int, minutes: float) -> list[dict[str, Any]]:
    """A row for each that was run; those of ``kept`` are not run again, and none starts after ``minutes``.

    The smoke test's worker, as the memory oracle runs it: forks of one process that has imported the libraries.
    """
    sys.path.insert(0, str(ORACLE))
    oracle = importlib.import_module("run")
    oracle.RUN_SECONDS = _RUN_SECONDS
    jobs_of = [(_case(trial), "dry-run") for trial in chosen]
    records = oracle.run_all(jobs_of, jobs, kept, logs, minutes)
    return [_row(trial, records[trial.key, "dry-run"]) for trial in chosen if (trial.key, "dry-run") in records]


def _row(trial: Trial, record: dict[str, Any]) -> dict[str, Any]:
    """What was predicted beside what the dry run's device needs, context and NCCL as predicted."""
    cost = trial.candidate.estimate
    row: dict[str, Any] = {
        "name": trial.name,
        "verdict": cost.verdict,
        "predicted_bytes": cost.gpu.peak_allocated_bytes,
        "low_bytes": cost.gpu.low_bytes,
        "high_bytes": cost.gpu.high_bytes,
        "capacity_bytes": cost.capacity_bytes,
        "seconds": record["seconds"],
    }
    if "error" in record:
        return row | {"failed": record["error"]}
    phases = {name: size for name, size in record["host"]["device"].items() if name != "steady"}
    measured = max(phases.values()) + cost.gpu.peak.overhead
    fits = measured <= cost.capacity_bytes
    return row | {
        "dry_run_bytes": measured,
        "dry_run_moment": max(phases, key=lambda name: phases[name]),
        "fits": fits,
        "error": round(cost.gpu.peak_allocated_bytes / measured - 1, 4),
        "agrees": fits is trial.fits,
        # refused, although the peak itself goes on the card, because the predicted error does not
        "by_the_margin": fits and not trial.fits and cost.gpu.peak_allocated_bytes <= cost.capacity_bytes,
    }


def summary(rows: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """How many agreed, and each that did not."""
    ran = [row for row in rows if "failed" not in row]
    called = [row for row in ran if row["verdict"] != "does-not-fit"]
    return {
        "asked": number,
        "ran": len(ran),
        "predicted_to_fit": len(called),
        "fit": sum(row["fits"] for row in ran),
        "agree": sum(row["agrees"] for row in ran),
        "within_the_interval": sum(row["low_bytes"] <= row["dry_run_bytes"] <= row["high_bytes"] for row in ran),
        "refused_by_the_margin": [row["name"] for row in ran if row["by_the_margin"]],
        "called_to_fit_but_do_not": [row["name"] for row in called if not row["fits"]],
        "refused_but_fit": [
            row["name"] for row in ran if not row["agrees"] and row["fits"] and not row["by_the_margin"]
        ],
        "did_not_run": {row["name"]: row["failed"] for row in rows if "failed" in row},
        "largest_errors": sorted((row["error"] for row in ran), key=abs, reverse=True)[:5],
        "rows": rows,
    }
