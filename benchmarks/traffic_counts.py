"""What DeepSpeed sends, counted, against what is predicted: ``python benchmarks/traffic_counts.py [--only TEXT]``.

Each case runs in the smoke test's dry run, as one rank of many (traffic_cases.py), which counts every collective that
reaches a process group: the kind, dtype, size of the group, elements of the whole tensors, calls. The third step
counts, when stage 3's trace is complete. Prints each difference, and a JSON object. Runs in the training environment.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from traffic_cases import QUICK, traffic_cases

from zeroconf.estimate.estimate import estimate
from zeroconf.inputs.ds_config import parse_config
from zeroconf.inputs.lora import with_lora
from zeroconf.plan.ran import workload_and_plan
from zeroconf.smoke.predict import processors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cases import Case

    from zeroconf.types import Collective

STEPS = 3
BAR = 0.03
# elements that one rank sends, of which a rounded one may differ where two tensors are counted together
ROUNDING = 1
Counts = dict[tuple[str, int, int], list[int]]
# why a case is not exact, by the name of its option
NAMED = {
    "t5": "the first block returns its position biases beside its output, so that backward comes to it twice",
    "deepseek_v3": "latent attention: a model's shape does not have the widths of its projections",
}


def counted(record: Mapping[str, Any]) -> Counts:
    """By kind, size of the group and bytes of an element: elements that one rank sends, and calls."""
    counts: Counts = {}
    for one in record["collectives"]:
        element_bytes = one["bytes"] // one["elements"] if one["elements"] else 0
        _add(counts, one["collective"], one["group_size"], element_bytes, one["elements"], one["count"])
    return counts


def predicted(case: Case, record: Mapping[str, Any]) -> Counts:
    """The same of the estimate; the model has as many parameters as its class built."""
    built = record["environment"]["parameters"]
    trainable = with_lora(case.model, case.job.lora_rank) if case.job.lora_rank else None
    model = replace(case.model, num_parameters=built - (trainable or 0), num_active_parameters=built)
    file = parse_config(record["environment"]["ds_config"], case.name)
    workload, plan = workload_and_plan(case.job, file, trainable)
    cost = estimate(model, processors(case.job.world_size), workload, plan)
    counts: Counts = {}
    for one in cost.traffic.per_collective:
        _add(counts, one.collective, one.group_size, _element_bytes(one), one.elements, one.count)
    return counts


def _element_bytes(one: Collective) -> int:
    return round(one.bytes / one.elements) if one.elements else 0


def _add(counts: Counts, kind: str, group: int, element_bytes: int, elements: int, calls: int) -> None:
    found = counts.setdefault((kind, group, element_bytes), [0, 0])
    found[0] += elements
    found[1] += calls


def compare(case: Case, record: Mapping[str, Any]) -> dict[str, Any]:
    """One case: bytes of both and their relative error, what differs, whether elements and calls are equal."""
    row: dict[str, Any] = {"case": case.name, "seconds": record["seconds"]}
    if "error" in record:
        return row | {"failed": record["error"]}
    real, expected = counted(record), predicted(case, record)
    sent, wanted = (sum(key[2] * elements for key, (elements, _) in one.items()) for one in (real, expected))
    differing = {
        " ".join(map(str, key)): {"counted": real.get(key), "predicted": expected.get(key)}
        for key in sorted(real.keys() | expected.keys())
        if not _equal(real.get(key), expected.get(key))
    }
    row |= {"bytes": sent, "predicted_bytes": wanted, "error": round(wanted / sent - 1, 5) if sent else 0.0}
    row |= {"calls": sum(calls for _, calls in real.values()), "exact": not differing}
    return row | ({"differing": differing, "cause": _cause(case.name)} if differing else {})


def _equal(one: Sequence[int] | None, other: Sequence[int] | None) -> bool:
    return one is not None and other is not None and one[1] == other[1] and abs(one[0] - other[0]) <= ROUNDING


def _cause(name: str) -> str:
    return next((cause for part, cause in NAMED.items() if part in name.split("/")[1].split("+")), "not known")


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many are exact, and each that is not."""
    ran = [row for row in rows if "failed" not in row]
    inexact = {row["case"]: row["error"] for row in ran if not row["exact"]}
    return {
        "cases": len(rows),
        "exact": sum(row["exact"] for row in ran),
        "within_3_percent": sum(abs(row["error"]) <= BAR for row in ran),
        "inexact": inexact,
        "causes": Counter(row["cause"] for row in ran if not row["exact"]),
        "failed": {row["case"]: row["failed"] for row in rows if "failed" in row},
    }


def main() -> None:
    """Runs, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this; commas part several")
    parser.add_argument("--quick", action="store_true", help="only the cases of the tests")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no run starts later than this")
    parser.add_argument("--keep", type=Path, help="a file of finished runs: what it has is not run again")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    chosen = [case for case in traffic_cases() if any(text in case.name for text in args.only.split(","))]
    chosen = [case for case in chosen if case.name in QUICK or not args.quick]
    oracle = importlib.import_module("run")
    oracle.STEPS["dry-run"] = STEPS
    with tempfile.TemporaryDirectory() as logs:
        jobs = [(case, "dry-run") for case in random.Random(0).sample(chosen, len(chosen))]
        records = oracle.run_all(jobs, args.jobs, args.keep, Path(logs), args.minutes)
    rows = [compare(case, records[case.name, "dry-run"]) for case in chosen if (case.name, "dry-run") in records]
    for row in rows:
        print(f"{row['case']:<60}", row.get("failed") or ("exact" if row["exact"] else row["error"]))
        for key, both in row.get("differing", {}).items():
            print(f"    {key:<30} counted {both['counted']} predicted {both['predicted']}")
    result = summary(rows)
    print(json.dumps(result, indent=1))
    if args.output:
        versions = {name: version(name) for name in ("torch", "deepspeed", "transformers", "peft")}
        result = {
            "date": datetime.now(tz=UTC).date().isoformat(),
            "versions": versions,
            "summary": result,
            "rows": rows,
        }
        args.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
