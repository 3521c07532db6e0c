"""The shipped tables of GPUs, links and instances, as rows of text."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

DATA = Path(__file__).parent / "data"


@cache
def read_table(name: str) -> tuple[dict[str, str], ...]:
    """The rows of ``data/<name>.csv``."""
    with (DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))
