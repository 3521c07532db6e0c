"""The newest result of each benchmark, and how pages write figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PHASES = ("init", "forward", "backward", "step")


def newest(benchmark: str) -> dict[str, Any]:
    """The newest result of a benchmark."""
    found: dict[str, Any] = json.loads(_path(benchmark).read_text(encoding="utf-8"))
    return found


def link(benchmark: str, *, to_root: str = "../") -> str:
    """Its date, as a link to its file from a folder of which ``to_root`` is the way to the repository's."""
    return f"[{newest(benchmark)['date']}]({to_root}{_path(benchmark).relative_to(ROOT).as_posix()})"


def versions(found: dict[str, Any]) -> str:
    """The Python and the libraries that a result was made with."""
    names = {"python": found["python"], **found.get("versions", {})}
    return ", ".join(f"{name} {release.partition('+')[0]}" for name, release in names.items())


def percent(share: float, digits: int = 0) -> str:
    """A share without its sign."""
    return f"{abs(share) * 100:.{digits}f} %"


def peak_errors(benchmark: str) -> list[float]:
    """How far the estimate's peak is from what DeepSpeed allocates, case by case."""
    return [peak(case["estimate"]) / peak(case["device"]) - 1 for case in newest(benchmark)["cases"]]


def peak(moments: dict[str, int]) -> int:
    """The most of all phases."""
    return max(moments[phase] for phase in PHASES)


def _path(benchmark: str) -> Path:
    return max((ROOT / "benchmarks/results").glob(f"{benchmark}-2*.json"))
