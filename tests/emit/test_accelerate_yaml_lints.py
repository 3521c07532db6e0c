"""What is written for Accelerate draws nothing from the linter but what it leaves to the command line."""

from __future__ import annotations

import pytest
from emit_builders import facts, plan

from zeroconf.document.read import parse_document
from zeroconf.emit.accelerate import accelerate_yaml, inline_accelerate_yaml
from zeroconf.lint import lint_document


def drawn(text):
    document = parse_document(text.encode(), "accelerate.yaml")
    assert document.kind == "accelerate"
    return {(finding.rule.code, finding.severity) for finding in lint_document(document).findings}


@pytest.mark.parametrize(("num_nodes", "expected"), [(1, set()), (4, {("ZC282", "info")})])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_naming_the_json(stage, num_nodes, expected):
    assert drawn(accelerate_yaml(facts(num_nodes=num_nodes), plan(stage), "ds_config.json")) == expected


@pytest.mark.parametrize(("num_nodes", "expected"), [(1, set()), (4, {("ZC282", "info")})])
@pytest.mark.parametrize(("stage", "offload"), [(0, "none"), (1, "none"), (2, "optimizer"), (3, "none"), (3, "all")])
@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_inline(stage, offload, precision, num_nodes, expected):
    chosen = plan(
        stage,
        offload,
        overlap_comm=stage == 3,
        reduce_bucket_size=500_000_000,
        max_live_parameters=1_000_000_000,
        max_reuse_distance=1_000_000_000,
    )
    given = facts(num_nodes=num_nodes, reader="accelerate", precision=precision)
    assert drawn(inline_accelerate_yaml(given, chosen)) == expected
