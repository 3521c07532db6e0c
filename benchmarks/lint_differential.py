"""The linter against the real libraries on mutated files: ``python benchmarks/lint_differential.py [--count N]``.

Each mutant of a valid configuration is read by the linter and by DeepSpeed, the Trainer or Accelerate themselves
(tests/differential); an error must mean a refusal or a named silent fault, a refusal must mean an error. Prints every
disagreement, minimised and grouped by cause, and writes a JSON object to ``--output``. Runs in the environment of the
libraries, about six minutes for 3,000 mutants on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "differential"))

import harness
from grid import grid
from mutate import mutants

LIBRARIES = ("accelerate", "deepspeed", "torch", "transformers")


def main() -> None:
    """Compares, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine-share", type=float, default=0.1, help="accepted mutants that the engine tries too")
    parser.add_argument("--grid", type=int, default=0, metavar="N", help="also every Nth key with a value of any type")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, harness.Judge(Path(folder)) as judge:
        parsed = harness.parsed_bases(judge)
        every = max(1, round(1 / args.engine_share)) if args.engine_share else 0
        cases = [*mutants(args.seed, args.count), *(grid(args.grid) if args.grid else ())]
        outcomes = [
            harness.compare(mutant, judge, engine=bool(every) and number % every == 0)
            for number, mutant in enumerate(cases)
        ]
        seconds = time.monotonic() - start
        disagreements = [
            {
                "kind": kind,
                "cause": cause,
                "count": len(group),
                "readers": sorted({outcome.mutant.reader for outcome in group}),
                "examples": [f"{outcome.mutant.base.name}: {outcome.mutant.what}" for outcome in group[:4]],
                "minimised": harness.minimised(group[0], judge),
            }
            for (kind, cause), group in harness.grouped(outcomes).items()
        ]
    unseen = Counter(f"{one.mutant.kind}: {one.mutant.what}" for one in harness.silent_and_unseen(outcomes, parsed))
    result = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "seed": args.seed,
        "mutants": len(outcomes),
        "seconds": round(seconds),
        "versions": {"python": sys.version.split()[0], **{name: version(name) for name in LIBRARIES}},
        "engine_runs": sum(outcome.verdict["where"] == "engine" for outcome in outcomes),
        "by_reader": _table(outcomes, lambda outcome: outcome.mutant.reader),
        "by_kind": _table(outcomes, lambda outcome: outcome.mutant.kind),
        "disagreements": disagreements,
        "accepted_unchanged_and_without_finding": dict(unseen.most_common()),
    }
    print(json.dumps(result, indent=2, ensure_ascii=False))
    if args.output:
        args.output.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _table(outcomes: list[harness.Outcome], key: Any) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        counts.setdefault(key(outcome), Counter())[outcome.kind] += 1
    return {name: dict(sorted(row.items())) for name, row in sorted(counts.items())}


if __name__ == "__main__":
    main()
