"""Public configurations with known verdicts, where a corpus is at hand: every error is true, no refusal is missed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = os.environ.get("ZEROCONF_CORPUS", "")
SCRIPT = Path(__file__).parent.parent.parent / "benchmarks" / "lint_corpus.py"


@pytest.mark.launch
@pytest.mark.skipif(not FOLDER, reason="ZEROCONF_CORPUS names no folder of public configurations")
def test_the_linter_and_the_verdicts_agree():
    run = subprocess.run([sys.executable, SCRIPT, FOLDER, "--judge", "10"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result["files"] > 100
    assert result["disagreements"] == []
    assert result["not_repeated"] == []
