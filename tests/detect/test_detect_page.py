"""docs/detect.md shows what the command prints: on a described machine, and on this one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from machines import dgx_in_slurm
from test_detect_command import run, without_gpus

from zeroconf.detect.inventory import detect
from zeroconf.render.inventory_yaml import inventory_yaml

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs/detect.md"


def readme():
    spec = importlib.util.spec_from_file_location("test_readme", TESTS / "test_readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_described_machine(tmp_path):
    (command, shown), _ = readme().blocks(PAGE)
    room = {"raid": 28 * 2**40}
    findings = detect(dgx_in_slurm(tmp_path), free_bytes=lambda path: room.get(path.name))
    assert (command, shown.strip()) == ("detect", inventory_yaml(findings).strip())


@without_gpus
def test_this_machine(tmp_path):
    _, (command, shown) = readme().blocks(PAGE)
    printed = run(command, cwd=tmp_path).stdout.splitlines()
    assert readme().matches(shown.rstrip().splitlines(), printed)
