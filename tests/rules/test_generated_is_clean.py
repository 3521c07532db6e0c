"""What ``generate`` writes draws no finding from the linter with the same reader: answered ones are ignored there."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from zeroconf import api
from zeroconf.document.read import parse_document
from zeroconf.emit.accelerate import inline_accelerate_yaml
from zeroconf.errors import InputError, NoPlanFits
from zeroconf.lint import lint_document
from zeroconf.lint.known import Known
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
    pinned = {"model": "llama-3.2-1b", "hardware": "8xA100-80GB"}
    for optimizer, client, offload in itertools.product(("adam", "sgd", "lion"), (False, True), ("none", "optimizer")):
        yield {**pinned, "zero_stage": 2, "optimizer": optimizer, "client_optimizer": client, "offload": offload}
    for stage in range(4):
        yield {**pinned, "zero_stage": stage, "optimizer": "adamw-8bit"}
        yield {**pinned, "zero_stage": stage, "lora_rank": 16, "quantize": "nf4"}
        yield {**pinned, "zero_stage": stage, "micro_batch_size": 1, "gradient_accumulation": 300}
        yield {**pinned, "zero_stage": stage, "precision": "fp16", "hardware": "1xA100-80GB"}


def _name(case):
    return " ".join(str(value) for value in case.values())


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", [pytest.param(case, id=_name(case)) for case in _cases()])
def test_no_finding(case, reader):
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
        linted = lint_document(document, reader=read_by, known=Known.of(facts))
        assert [f"{one.severity} {one.rule.code} {one.pointer}: {one.message}" for one in linted.findings] == [], path
        assert all(one.reason for one in linted.suppressed)
        assert document.kind != "unknown", path


@pytest.mark.parametrize(
    ("options", "path", "code"),
    [
        ({"hardware": "8xA100-80GB", "micro_batch_size": 1, "gradient_accumulation": 64}, "ds_config.json", "ZC217"),
        ({"hardware": "8xA100-80GB", "optimizer": "sgd", "offload": "optimizer"}, "ds_config.json", "ZC242"),
        ({"hardware": "8xA100-80GB", "client_optimizer": True, "offload": "optimizer"}, "ds_config.json", "ZC243"),
        ({**WORLDS[2]}, "accelerate.yaml", "ZC282"),
    ],
)
def test_what_a_plan_does_knowingly_stands_in_the_file_with_its_reason(options, path, code):
    facts, _ = api.load_facts({"model": "llama-3.2-1b", "zero_stage": 2, "reader": "deepspeed", **options})
    made = api.generate(facts, output="ds_config.json", accelerate="accelerate.yaml")
    linted = lint_document(parse_document(made.files[path].encode(), path), reader=Reader("deepspeed", stated=True))
    assert linted.findings == ()
    assert [one.finding.rule.code for one in linted.suppressed] == [code]
