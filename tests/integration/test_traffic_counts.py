"""Every collective of the engine's step, counted in dry runs, is predicted: kind, elements, bytes, calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "traffic_counts.py"


@pytest.mark.launch
@pytest.mark.skipif(sys.platform != "linux", reason="the dry run's worker is for Linux")
def test_what_deepspeed_sends_is_predicted_call_by_call(tmp_path):
    output = tmp_path / "counts.json"
    ran = subprocess.run(
        [sys.executable, str(BENCHMARK), "--quick", "--output", str(output)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    rows = json.loads(output.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == 10
    for row in rows:
        assert row.get("exact"), row
