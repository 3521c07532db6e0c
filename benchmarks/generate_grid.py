"""What ``generate`` writes over a seeded grid, by the real libraries: ``python benchmarks/generate_grid.py``.

All families of the catalogue, hardware of all classes and all options (generate_cases.py). Each file is read by
DeepSpeed, Accelerate and the Trainer at its true world size (tests/integration/emit_reader.py), its keys are looked up
in the key table at its stage, it is linted, and each of its keys needs a reason. ``--dry-runs 40`` also runs as many
plans, half of them refused ones, on DeepSpeed's engine (generate_dry_runs.py). Runs in the training environment; prints
what is wrong, and a JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generate_cases import READERS, Options, cases, families
from generate_dry_runs import run_all, trials
from generate_dry_runs import summary as dry_run_summary

from zeroconf import api
from zeroconf.document.read import parse_document
from zeroconf.emit.notes import leaves
from zeroconf.errors import NoPlanFits
from zeroconf.keys import key_table
from zeroconf.lint import lint_document
from zeroconf.lint.known import Known
from zeroconf.rules.facts import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zeroconf.types import Facts, Plan

ROOT = Path(__file__).resolve().parent.parent
READER = ROOT / "tests" / "integration" / "emit_reader.py"
CONFIG, ACCELERATE = "ds config.json", "accelerate.yaml"
NUMBER = 450
__all__ = ["READERS", "cases", "faults", "make", "read", "reasons_of", "summary", "unread"]


@dataclass(frozen=True, slots=True)
class Made:
    """What was generated for one case."""

    options: Options
    facts: Facts
    plan: Plan
    verdict: str
    files: Mapping[str, str]

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.options.items())

    def to_reader(self) -> dict[str, Any]:
        """The line for the reader."""
        return {
            "nodes": self.facts.cluster.num_nodes,
            "gpus": self.facts.cluster.gpus_per_node,
            "reader": self.facts.reader,
            "precision": self.facts.workload.precision,
            "micro": self.plan.micro_batch_size,
            "steps": self.plan.gradient_accumulation_steps,
            "json": self.files[CONFIG],
            "yaml": self.files[ACCELERATE],
        }


def make(options: Options, folder: Path) -> Made | None:
    """The files of one case; None when nothing fits."""
    facts, _ = api.load_facts(options)
    try:
        made = api.generate(facts, output=str(folder / CONFIG), accelerate=ACCELERATE, explain=True)
    except NoPlanFits:
        return None
    files = {CONFIG: made.files[str(folder / CONFIG)], ACCELERATE: made.files[ACCELERATE]}
    chosen = made.decision.chosen
    if chosen is None:
        return None
    return Made(options, facts, chosen.plan, chosen.estimate.verdict, files)


def read(made: Sequence[Made], folder: Path) -> list[dict[str, Any]]:
    """What the libraries see in each."""
    lines = "".join(json.dumps(one.to_reader()) + "\n" for one in made)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(READER), str(folder)]
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, check=False, env=environment)
    # DeepSpeed prints to stdout as well
    answers = [json.loads(line) for line in ran.stdout.splitlines() if line[:2] == '{"']
    if len(answers) != len(made):
        sys.exit(f"the reader answered {len(answers)} of {len(made)}:\n{ran.stderr[-2000:]}")
    return answers


def faults(one: Made, seen: Mapping[str, Any]) -> Iterator[str]:
    """Everything that is wrong with one case; nothing when all is well."""
    if "error" in seen:
        yield f"refused: {seen['error']}"
        return
    yield from _differing("DeepSpeed", seen["deepspeed"], _by_deepspeed(one))
    yield from _differing("Accelerate", seen["accelerate"], _by_accelerate(one))
    if ignored := set(seen.get("not_asked", ())) - {"_zeroconf"}:
        yield f"DeepSpeed never asks for {sorted(ignored)}"
    config = json.loads(one.files[CONFIG])
    config.pop("_zeroconf")
    yield from unread(leaves(config), one.plan.stage)
    explained = {reason["key"]: reason["because"] for reason in reasons_of(one)}
    yield from (f"{key} has no reason" for key in leaves(config) if not explained.get(key))
    yield from _lint(one)


def reasons_of(one: Made) -> list[dict[str, Any]]:
    """The reasons that stand in its file."""
    reasons: list[dict[str, Any]] = json.loads(one.files[CONFIG])["_zeroconf"]["reasons"]
    return reasons


def _differing(who: str, seen: Mapping[str, Any], planned: Mapping[str, Any]) -> Iterator[str]:
    yield from (
        f"{who} sees {key} {seen[key]}, planned is {value}" for key, value in planned.items() if seen[key] != value
    )


def _by_deepspeed(one: Made) -> dict[str, Any]:
    plan, work = one.plan, one.facts.workload
    wanted = {
        "train": work.global_batch_size,
        "micro": plan.micro_batch_size,
        "steps": plan.gradient_accumulation_steps,
        "stage": plan.stage,
        "offload_optimizer": plan.offload_optimizer,
        "offload_param": plan.offload_param,
        "bf16": work.precision == "bf16",
        "fp16": work.precision == "fp16",
        "hpz": plan.zero_hpz_partition_size,
    }
    if plan.stage:
        wanted |= {"overlap_comm": plan.overlap_comm, "reduce_bucket_size": plan.reduce_bucket_size}
    if plan.stage == 3:
        wanted |= {"max_live_parameters": plan.max_live_parameters, "gather": True}
    return wanted | ({"left": 0} if one.facts.reader == "trainer" else {})


def _by_accelerate(one: Made) -> dict[str, Any]:
    plan, cluster = one.plan, one.facts.cluster
    return {
        "num_processes": cluster.num_gpus,
        "num_machines": cluster.num_nodes,
        "nnodes": cluster.num_nodes,
        "nproc": cluster.gpus_per_node,
        "stage": plan.stage,
        "offload_optimizer": plan.offload_optimizer,
        "offload_param": plan.offload_param,
        "zero3_init": plan.stage == 3,
    }


def unread(values: Mapping[str, Any], stage: int) -> Iterator[str]:
    """Keys that the table does not know, or that the engine does not read at this stage."""
    table = key_table("deepspeed")
    for name in values:
        steps = name.split(".")
        # free-form, by the optimizer's type
        if steps[:2] == ["optimizer", "params"]:
            continue
        for end in range(1, len(steps) + 1):
            key = table.key(*steps[:end])
            if key is None:
                yield f"{name} is not in the key table"
            elif key.read_at is not None and stage not in key.read_at:
                yield f"{name} is not read at stage {stage}"


def _lint(one: Made) -> Iterator[str]:
    """Findings of any severity under the facts that the plan was made for; an ignored one needs a reason."""
    known = Known.of(one.facts)
    for path, text in one.files.items():
        reader = Reader("accelerate" if path == ACCELERATE else one.facts.reader, stated=True)
        linted = lint_document(parse_document(text.encode(), path), reader=reader, known=known)
        yield from (f"{path}: {found.rule.code} {found.message}" for found in linted.findings)
        yield from (f"{path}: ignored without a reason" for ignored in linted.suppressed if not ignored.reason)


def summary(made: Iterable[Made]) -> dict[str, Any]:
    """How many of each kind, so that nobody takes a narrow grid for a wide one."""
    made = list(made)
    counts = {
        "architecture": Counter(one.facts.model.architecture for one in made),
        "reader": Counter(one.facts.reader for one in made),
        "precision": Counter(one.facts.workload.precision for one in made),
        "optimizer": Counter(one.facts.workload.optimizer for one in made),
        "stage": Counter(str(one.plan.stage) for one in made),
        "offload": Counter(one.plan.offload for one in made),
        "hpz": Counter(str(one.plan.zero_hpz_partition_size) for one in made),
        "world_size": Counter(str(one.facts.cluster.num_gpus) for one in made),
        "hardware": Counter(one.options["hardware"] for one in made),
        "lora": Counter(str(one.facts.workload.lora_rank) for one in made),
        "verdict": Counter(one.verdict for one in made),
    }
    return {name: dict(sorted(counted.items())) for name, counted in counts.items()}


def main() -> None:
    """Makes, reads, checks, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=NUMBER, help="cases, those where nothing fits among them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dry-runs", type=int, default=0, help="so many plans are run on DeepSpeed's engine as well")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no dry run starts later than this")
    parser.add_argument("--keep", type=Path, help="a file of finished dry runs: what it has is not run again")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tried = [make(options, folder) for options in cases(args.number, args.seed)]
        made = [one for one in tried if one is not None]
        wrong = {str(one): found for one, seen in zip(made, read(made, folder), strict=True)
                 if (found := list(faults(one, seen)))}  # fmt: skip
        dry_runs = {}
        if args.dry_runs:
            rows = run_all(trials(args.dry_runs), folder, args.keep, args.jobs, args.minutes)
            dry_runs = {"dry_runs": dry_run_summary(rows, args.dry_runs)}
    result = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "versions": {name: version(name) for name in ("deepspeed", "accelerate", "transformers")},
        "cases": args.number,
        "seed": args.seed,
        "families": len(families()),
        "nothing_fits": len(tried) - len(made),
        "generated": len(made),
        "faulty": wrong,
        "counts": summary(made),
        **dry_runs,
    }
    text = json.dumps(result, indent=1)
    print(text)
    if args.output:
        args.output.write_text(text + "\n", encoding="utf-8")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
