"""What the constructors and steps of torch.optim refuse, and what DeepSpeed's own optimizers take all the same."""

from __future__ import annotations

import json

import pytest
import torch

from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document
from zeroconf.rules.facts import Reader
from zeroconf.rules.values.optimizer import TORCH

CODES = {"ZC221", "ZC291", "ZC292"}


def briefs(name, stage=2, **params):
    config = {
        "train_batch_size": 8,
        "optimizer": {"type": name, "params": {"lr": 0.1, **params}},
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    document = parse_document(json.dumps(config).encode(), "ds_config.json")
    found = lint_document(document, reader=Reader("deepspeed", stated=True)).findings
    return [(one.rule.code, one.severity, one.pointer) for one in found if one.rule.code in CODES]


def is_refused(name, **params):
    try:
        getattr(torch.optim, name)([torch.nn.Parameter(torch.ones(2, 2))], **{"lr": 0.1, **params})
    except ValueError:
        return True
    return False


@pytest.mark.parametrize("name", sorted(TORCH - {"Adafactor"}))  # its eps is a pair
@pytest.mark.parametrize("key", ["lr", "eps", "weight_decay", "momentum", "lr_decay", "momentum_decay"])
def test_negative_numbers_are_refused_where_torch_refuses_them(name, key):
    try:
        refused = is_refused(name, **{key: -1})
    except TypeError:
        return  # takes no such parameter
    assert refused
    assert ("ZC291", "error", f"/optimizer/params/{key}") in briefs(name, **{key: -1})


@pytest.mark.parametrize("betas", [[0.9, 1.0], [1, 0.9], [-0.1, 0.9], [0.0, 0.0], [0.9, 0.999]])
@pytest.mark.parametrize("name", ["Adamax", "NAdam", "RAdam"])
def test_betas_are_refused_where_torch_refuses_them(name, betas):
    assert bool(briefs(name, betas=betas)) == is_refused(name, betas=tuple(betas))


@pytest.mark.parametrize(
    ("name", "params", "pointers"),
    [
        ("AdamW", {"torch_adam": True, "betas": [0.9, 1.0]}, ["/optimizer/params/betas/1"]),
        ("Adam", {"torch_adam": True, "lr": -0.1}, ["/optimizer/params/lr"]),
        ("Adagrad", {"eps": -1}, ["/optimizer/params/eps"]),
        # FusedAdam checks nothing
        ("AdamW", {"betas": [0.9, 1.0], "lr": -0.1}, []),
    ],
)
def test_the_class_that_is_built_decides(name, params, pointers):
    assert [pointer for _, _, pointer in briefs(name, **params)] == pointers


@pytest.mark.parametrize(
    ("name", "stage", "severity"),
    [("LBFGS", 0, "error"), ("LBFGS", 2, "error"), ("SparseAdam", 0, "warning"), ("SparseAdam", 3, "error")],
)
def test_what_cannot_step_is_one_finding(name, stage, severity):
    assert briefs(name, stage) == [("ZC292", severity, "/optimizer/type")]
