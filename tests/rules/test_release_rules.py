"""Known-bad releases: each rule speaks for its own span of releases and for nothing else."""

from __future__ import annotations

import json

import pytest
import yaml

from zeroconf.document.read import parse_document
from zeroconf.keys import newest_releases
from zeroconf.lint import lint_document
from zeroconf.rules import RULES
from zeroconf.rules.facts import Reader

RELEASE_RULES = {code for code in RULES if code.startswith("ZC6")}
OVERLAPPING = {"zero_optimization": {"stage": 2, "overlap_comm": True}}
HPZ = {"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
AUTOTP = {"zero_optimization": {"stage": 3}, "tensor_parallel": {"autotp_size": 2}}
BF16 = {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}, "zero_optimization": {"stage": 1}}
OFFLOAD = {"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}}


def drawn(config, reader=None, **releases):
    stated = newest_releases()._replace(stated=bool(releases), **releases)
    document = parse_document(json.dumps({"train_batch_size": 8, **config}).encode(), "ds_config.json")
    found = lint_document(document, reader=Reader(reader, stated=bool(reader)), releases=stated).findings
    return {(finding.rule.code, finding.severity) for finding in found if finding.rule.code in RELEASE_RULES}


@pytest.mark.parametrize("config", [OVERLAPPING, HPZ, AUTOTP, BF16, OFFLOAD, {"scheduler": {"type": "WarmupLR"}}])
def test_the_newest_releases_are_not_known_to_be_bad(config):
    assert drawn(config) == set()


@pytest.mark.parametrize(
    ("config", "release", "expected"),
    [
        (HPZ, (0, 13, 4), {("ZC601", "warning")}),
        (HPZ, (0, 18, 2), {("ZC601", "warning")}),
        (HPZ, (0, 18, 3), set()),
        (OVERLAPPING, (0, 17, 4), {("ZC602", "warning")}),
        (OVERLAPPING, (0, 17, 5), {("ZC602", "info")}),
        (OVERLAPPING, (0, 18, 1), {("ZC602", "info"), ("ZC603", "warning")}),
        (OVERLAPPING, (0, 19, 0), set()),
        ({"zero_optimization": {"stage": 2}}, (0, 17, 5), set()),
        ({"zero_optimization": {"stage": 2}}, (0, 17, 6), {("ZC603", "warning")}),
        (BF16, (0, 18, 2), {("ZC611", "info")}),
        (BF16, (0, 18, 3), {("ZC605", "warning"), ("ZC611", "info")}),
        (BF16, (0, 19, 0), {("ZC611", "info")}),
        (BF16, (0, 19, 3), set()),
        (BF16, (0, 17, 0), set()),
        (AUTOTP, (0, 19, 3), {("ZC606", "error")}),
        (AUTOTP, (0, 19, 4), set()),
        ({"scheduler": {"type": "WarmupLR"}}, (0, 14, 4), {("ZC610", "info")}),
        ({"scheduler": {"type": "WarmupLR"}}, (0, 14, 5), set()),
        (OFFLOAD, (0, 19, 4), set()),
        (OFFLOAD, (0, 19, 5), {("ZC612", "info")}),
    ],
)
def test_each_release_has_its_own(config, release, expected):
    assert drawn(config, deepspeed=release) == expected


def test_old_accelerate_matters_to_its_readers_only():
    config = {"zero_optimization": {"stage": 2}, "tensor_parallel": {"autotp_size": 2}}
    assert drawn(config, accelerate=(1, 5, 2)) == set()
    assert drawn(config, reader="trainer", accelerate=(1, 5, 2)) == {("ZC607", "warning")}
    assert drawn(config, reader="trainer", accelerate=(1, 6, 0)) == set()


@pytest.mark.parametrize("odd", [None, [], "auto", {"stage": []}, {"stage": 3, "zero_hpz_partition_size": "auto"}, 3])
def test_odd_values_draw_nothing(odd):
    config = {"zero_optimization": odd, "tensor_parallel": odd, "bf16": odd, "scheduler": odd, "data_types": odd}
    for release in ((0, 13, 4), (0, 18, 3), (0, 19, 5)):
        assert drawn(config, deepspeed=release) == set()


@pytest.mark.parametrize(
    ("inline", "deepspeed", "accelerate", "code"),
    [
        ({}, (0, 18, 2), (1, 12, 0), "ZC604"),
        ({"zero_stage": 3, "gradient_accumulation_steps": 4}, (0, 16, 0), (1, 8, 1), "ZC608"),
    ],
)
def test_accelerate_yaml_with_old_releases(inline, deepspeed, accelerate, code):
    text = yaml.safe_dump({"distributed_type": "DEEPSPEED", "num_processes": 8, "deepspeed_config": inline})
    document = parse_document(text.encode(), "accelerate.yaml")
    old = newest_releases()._replace(deepspeed=deepspeed, accelerate=accelerate, stated=True)
    assert code in {finding.rule.code for finding in lint_document(document, releases=old).findings}
    assert not RELEASE_RULES & {finding.rule.code for finding in lint_document(document).findings}
