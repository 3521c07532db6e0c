"""Does the estimate's interval hold what DeepSpeed allocates? ``python benchmarks/memory_intervals.py FILE...``.

A file is a result of the memory oracle (``results/memory-oracle-*.json``) or the JSON of one ``zeroconf smoke-test
--dry-run --json``. An oracle's case needs ``interval`` (``low_bytes`` and ``high_bytes`` of the allocated peak:
``zeroconf.estimate.memory.error_bytes`` around it) beside ``device``, the dry run's bytes on the device by phase, or
``counted``; its models are too small for context and NCCL, which are left out. A smoke test brings the interval of the
whole card with its prediction; context and NCCL are added to what it measured.

Bars: at least 90 % held, median width at most 15 % of the measured bytes. Exit code 1 when missed, 2 without cases.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HELD_BAR, WIDTH_BAR = 0.90, 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A measured peak and the interval that should hold it, in bytes."""

    name: str
    measured_bytes: int
    low_bytes: int
    high_bytes: int

    @property
    def held(self) -> bool:
        """Whether the interval holds it."""
        return self.low_bytes <= self.measured_bytes <= self.high_bytes

    @property
    def width(self) -> float:
        """The interval over the measured bytes."""
        return (self.high_bytes - self.low_bytes) / self.measured_bytes


def cases(name: str, content: dict[str, Any]) -> list[Case]:
    """The cases of one file; those that failed or have no interval are left out."""
    if content.get("schema") == "zeroconf/smoke-test/1":
        return _smoke_test(name, content)
    return [
        _oracle(row) for row in content.get("cases", ()) if "interval" in row and ("device" in row or "counted" in row)
    ]


def _oracle(row: dict[str, Any]) -> Case:
    phases = row.get("device") or row["counted"]
    return Case(name=row["case"], measured_bytes=max(phases.values()), **row["interval"])


def _smoke_test(name: str, content: dict[str, Any]) -> list[Case]:
    predicted, ranks = content["predicted"], content["ranks"]
    if not predicted or not ranks:
        return []
    measured = max(rank["peak_allocated_bytes"] for rank in ranks) + predicted["gpu"]["overhead"]
    return [Case(name=name, measured_bytes=measured, **predicted["interval"])]


def summary(found: list[Case]) -> dict[str, Any]:
    """The share held, the widths, and what is not held."""
    widths = sorted(case.width for case in found)
    return {
        "cases": len(found),
        "held": round(sum(case.held for case in found) / len(found), 4),
        "median_width": round(statistics.median(widths), 4),
        "largest_width": round(widths[-1], 4),
        "not_held": {
            case.name: round(
                case.measured_bytes / (case.low_bytes if case.measured_bytes < case.low_bytes else case.high_bytes) - 1,
                4,
            )
            for case in found
            if not case.held
        },
    }


def main() -> None:
    """Reads, prints, judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    args = parser.parse_args()
    try:
        found = [case for path in args.files for case in cases(path.name, json.loads(path.read_text(encoding="utf-8")))]
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    if not found:
        print("error: no case has an interval beside measured bytes", file=sys.stderr)
        sys.exit(2)
    result = summary(found)
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["held"] >= HELD_BAR and result["median_width"] <= WIDTH_BAR else 1)


if __name__ == "__main__":
    main()
