"""Predicted against published GPU memory: ``python benchmarks/memory_accuracy.py [--llm-analysis PYTHON] [--page]``.

The rows are ``data/measured.csv``; nothing in the estimate is fitted to them. Prints the signed error of each row, by
framework and stage, beside public estimators on the rows where they answer, which runs that ran are called
does-not-fit, and why the other published rows are not used. Writes ``results/memory-accuracy-DATE.json``; ``--page``
also ``docs/accuracy.md`` from it. ``--llm-analysis`` is the interpreter of an environment with llm-analysis
(``python -m venv peer && peer/bin/pip install llm-analysis==0.2.2``). DeepSpeed and Accelerate must be installed here.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("DS_ACCELERATOR", "cpu")

from accuracy_page import page, put_section
from accuracy_peers import PEERS, answers
from accuracy_rows import Row, comparable_bytes, measured_bytes, predicted, rows

ROOT = Path(__file__).parent.parent


def one(row: Row, given: dict[str, int]) -> dict[str, Any]:
    """One measured row: prediction, signed error, interval, and what the peers say."""
    cost, measured = predicted(row), measured_bytes(row)
    expected = comparable_bytes(row, cost)
    # the interval bounds what is on the card
    on_card = measured if row["memory_kind"] == "nvidia-smi" else measured + cost.gpu.peak.overhead
    keys = ("id", "framework", "stage", "model", "gpus", "sequence_length", "micro_batch", "memory_kind", "grade")
    return {
        **{key: row[key] for key in keys},
        "lora": bool(row["lora_rank"]),
        "measured_bytes": measured,
        "predicted_bytes": expected,
        "signed_error": round(expected / measured - 1, 4),
        "peak_moment": cost.gpu.peak_moment,
        "in_interval": cost.gpu.low_bytes <= on_card <= cost.gpu.high_bytes,
        "verdict": cost.verdict,
        "note": row["note"],
        "peers": {
            name: {"bytes": value, "signed_error": round(value / measured - 1, 4)} for name, value in given.items()
        },
    }


def fit(row: Row) -> dict[str, Any]:
    """One row of which only the outcome counts: what ran, or ran out of memory, and our verdict."""
    cost = predicted(row)
    keys = ("id", "framework", "stage", "model", "gpus", "loss", "fits")
    share = round(cost.gpu.peak_allocated_bytes / cost.capacity_bytes, 3)
    return {**{key: row[key] for key in keys}, "verdict": cost.verdict, "share_of_card": share}


def verdicts(outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    """How many ran and are called does-not-fit, and how many ran out of memory and are called comfortable."""
    ran = [row for row in outcomes if row["fits"] == "yes"]
    failed = [row for row in outcomes if row["fits"] == "oom"]
    refused = [row["id"] for row in ran if row["verdict"] == "does-not-fit"]
    return {
        "ran": len(ran),
        "ran_but_called_does_not_fit": refused,
        "share_called_does_not_fit": round(len(refused) / len(ran), 4) if ran else 0.0,
        "out_of_memory": len(failed),
        "out_of_memory_called_comfortable": [row["id"] for row in failed if row["verdict"] == "comfortable"],
    }


def errors(signed: list[float]) -> dict[str, Any]:
    """Median and 95th percentile of the absolute errors, and the median of the signed ones."""
    sizes = sorted(map(abs, signed))
    last = sizes[min(len(sizes) - 1, round(0.95 * (len(sizes) - 1)))]
    return {
        "rows": len(signed),
        "median_absolute": round(statistics.median(sizes), 4),
        "p95_absolute": round(last, 4),
        "median_signed": round(statistics.median(signed), 4),
    }


def beside(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Each peer's errors and ours on the rows where it answers."""
    table = {}
    for name in PEERS:
        answered = [row for row in measured if name in row["peers"]]
        if answered:
            theirs = errors([row["peers"][name]["signed_error"] for row in answered])
            table[name] = {"theirs": theirs, "ours": errors([row["signed_error"] for row in answered])}
    return table


def groups(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Errors by framework, stage, and full training or adapters."""
    found: dict[str, list[float]] = {}
    for row in measured:
        kind = "adapters" if row["lora"] else "full"
        found.setdefault(f"{row['framework']}, stage {row['stage']}, {kind}", []).append(row["signed_error"])
    return {name: errors(signed) for name, signed in sorted(found.items())}


def result(llm_analysis_python: str | None) -> dict[str, Any]:
    """Everything, as the file holds it."""
    used = rows()
    with_memory = [row for row in used if row["measured_gib"]]
    measured = [
        one(row, given) for row, given in zip(with_memory, answers(with_memory, llm_analysis_python), strict=True)
    ]
    outcomes = [fit(row) for row in used]
    unused = rows("measured_unused")
    deepspeed = [row["signed_error"] for row in measured if "DeepSpeed" in row["framework"]]
    return {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "versions": {name: version(name) for name in ("deepspeed", "accelerate")}
        | ({"llm-analysis": "0.2.2"} if llm_analysis_python else {}),
        "summary": {
            "all": errors([row["signed_error"] for row in measured]),
            "DeepSpeed": errors(deepspeed),
            "in_interval": round(sum(row["in_interval"] for row in measured) / len(measured), 3),
            "verdicts": verdicts(outcomes),
        },
        "groups": groups(measured),
        "peers": beside(measured),
        "rows": measured,
        "outcomes": outcomes,
        "unused": {
            "reasons": dict(Counter(row["reason"] for row in unused).most_common()),
            "rows": [{key: row[key] for key in ("id", "source", "reason")} for row in unused],
        },
    }


def main() -> None:
    """Computes, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llm-analysis", metavar="PYTHON", help="interpreter of an environment with llm-analysis")
    parser.add_argument("--page", action="store_true", help="also write docs/accuracy.md")
    args = parser.parse_args()
    found = result(args.llm_analysis)
    text = page(found)
    print(text)
    path = ROOT / "benchmarks" / "results" / f"memory-accuracy-{found['date']}.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if args.page:
        put_section(ROOT / "docs" / "accuracy.md", text)


if __name__ == "__main__":
    main()
