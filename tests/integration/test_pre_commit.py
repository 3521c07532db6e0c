"""The hooks under the real pre-commit, installed as it installs them: from a repository, into its own environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pre_commit")
ROOT = Path(__file__).parent.parent.parent
BAD = {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}
CONFIG = """
repos:
  - repo: {repository}
    rev: {revision}
    hooks:
      - id: zeroconf-lint
      - id: zeroconf-fix
"""


@pytest.mark.launch
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="pre-commit installs hooks from a git repository")
def test_hooks(tmp_path):
    environment = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}
    # git sets these for its hooks, and they would point into the repository that is being committed to
    for name in [name for name in environment if name.startswith("GIT_")] + ["PYTHONPATH"]:
        environment.pop(name, None)
    folder = tmp_path / "project"
    folder.mkdir()

    def run(*command, cwd=folder):
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)

    revision = run("git", "rev-parse", "HEAD", cwd=ROOT).stdout.strip()
    config = CONFIG.format(repository=ROOT, revision=revision)
    (folder / ".pre-commit-config.yaml").write_text(config, encoding="utf-8")
    (folder / "bad.json").write_text(json.dumps(BAD), encoding="utf-8")
    (folder / "other.json").write_text('{"name": "x"}', encoding="utf-8")
    (folder / "hostfile").write_text("node1 slots=8\nnode2 slots 8\n", encoding="utf-8")
    (folder / "hostfile.txt").write_text("# the hosts of this service, one a line\ndb1\ndb2\n", encoding="utf-8")
    run("git", "init")
    run("git", "add", ".")
    hooks = (sys.executable, "-m", "pre_commit", "run", "--all-files")
    failed = run(*hooks)
    assert failed.returncode == 1, failed
    assert "bad.json:1:" in failed.stdout
    assert "ZC240" in failed.stdout
    assert "hostfile:2:" in failed.stdout
    assert "other.json" not in failed.stdout
    assert "hostfile.txt" not in failed.stdout
    (folder / "bad.json").unlink()
    (folder / "hostfile").write_text("node1 slots=8\nnode2 slots=8\n", encoding="utf-8")
    run("git", "add", ".")
    passed = run(*hooks)
    assert passed.returncode == 0, passed
    assert passed.stdout.count("Passed") == 2
