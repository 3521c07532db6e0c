"""docs/detect.md shows what the command prints: on a described machine, and on this one."""

from __future__ import annotations

import re

from machines import dgx_in_slurm
from test_detect_command import run, without_gpus
from with_writers import ROOT, writer

from zeroconf.detect.inventory import detect
from zeroconf.render.inventory_yaml import inventory_yaml

PAGE = (ROOT / "docs/detect.md").read_text(encoding="utf-8")
DESCRIBED, HERE = re.findall(r"^```console\n\$ zeroconf detect\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_described_machine(tmp_path):
    room = {"raid": 28 * 2**40}
    findings = detect(dgx_in_slurm(tmp_path), free_bytes=lambda path: room.get(path.name))
    assert inventory_yaml(findings).strip() == DESCRIBED.strip()


@without_gpus
def test_this_machine(tmp_path):
    printed = run("detect", cwd=tmp_path).stdout.splitlines()
    assert writer("write_outputs").matches(HERE.rstrip().splitlines(), printed)
