"""What ``generate`` writes draws no warning and no error from the linter with the same reader."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from zeroconf import api
from zeroconf.document.read import parse_document
from zeroconf.emit.accelerate import inline_accelerate_yaml
from zeroconf.errors import InputError, NoPlanFits
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader

READERS = ("trainer", "accelerate", "deepspeed")
OFFLOADS = ("none", "optimizer", "all")
WORLDS = (
    {"hardware": "8xA100-80GB"},
    {"hardware": "p3.16xlarge", "lora_rank": 16},
    {"hardware": "4x8xH100-80GB", "network": "ib-ndr", "nvme": "/scratch:7TB", "host_memory": "2TiB"},
)


def _cases():
    for world, stage, offload in itertools.product(WORLDS, range(4), OFFLOADS):
        if (offload == "none" or stage > 0) and (offload != "all" or stage == 3):
            yield {"model": "llama-3.2-1b", "zero_stage": stage, "offload": offload, **world}
    yield {"model": "llama-3.1-8b", "hardware": "8xA100-80GB", "optimizer": "lion"}
    yield {"model": "llama-3.1-8b", "hardware": "8xA100-80GB", "client_optimizer": True}
    yield {"model": "llama-3.1-8b", "hardware": "8xA100-80GB", "precision": "fp32"}
    yield {"model": "llama-3.1-70b", **WORLDS[2], "zero_stage": 3, "offload": "nvme"}
    yield {"model": "llama-3.1-70b", **WORLDS[2]}
    yield {"model": "qwen3-30b-a3b", **WORLDS[2]}
    yield {"model": "gpt2-xl", "hardware": "4x1xA100-40GB", "network": "1gbe"}


def _name(case):
    return " ".join(str(value) for value in case.values())


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", [pytest.param(case, id=_name(case)) for case in _cases()])
def test_no_finding_above_info(case, reader):
    facts, _ = api.load_facts({**case, "reader": reader})
    try:
        made = api.generate(facts, output="ds_config.json", accelerate="accelerate.yaml", explain=True)
    except NoPlanFits:
        pytest.skip("nothing fits")
    files = dict(made.files)
    with contextlib.suppress(InputError):  # not every plan can be said without the JSON
        files["inline.yaml"] = inline_accelerate_yaml(facts, made.decision.chosen.plan)
    for path, content in files.items():
        document = parse_document(content.encode(), path)
        read_by = Reader("accelerate" if path.endswith(".yaml") else reader, stated=True)
        linted = lint_document(document, reader=read_by)
        loud = [f"{one.severity} {one.rule.code} {one.pointer}: {one.message}" for one in linted.findings]
        assert [line for line in loud if not line.startswith("info")] == [], path
        assert document.kind != "unknown", path
