"""What is written for Accelerate draws nothing from the linter; what is left to the command line is ignored there."""

from __future__ import annotations

import pytest
from emit_builders import facts, plan

from zeroconf.document.read import parse_document
from zeroconf.emit.accelerate import accelerate_yaml, inline_accelerate_yaml
from zeroconf.lint import lint_document


def ignored(text):
    """The rules that the file ignores, where nothing else is found."""
    document = parse_document(text.encode(), "accelerate.yaml")
    assert document.kind == "accelerate"
    linted = lint_document(document)
    assert linted.findings == ()
    return [one.finding.rule.code for one in linted.suppressed]


@pytest.mark.parametrize(("num_nodes", "expected"), [(1, []), (4, ["ZC282"])])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_naming_the_json(stage, num_nodes, expected):
    assert ignored(accelerate_yaml(facts(num_nodes=num_nodes), plan(stage), "ds_config.json")) == expected


@pytest.mark.parametrize(("num_nodes", "expected"), [(1, []), (4, ["ZC282"])])
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
    assert ignored(inline_accelerate_yaml(given, chosen)) == expected
