"""Linting a configuration under facts, for tests of the rules that need some."""

from __future__ import annotations

import json

from zeroconf import api
from zeroconf.document.read import parse_document
from zeroconf.inputs.ds_config import parse_config
from zeroconf.keys import newest_releases
from zeroconf.lint import lint_document
from zeroconf.lint.known import Known
from zeroconf.lint.siblings import among
from zeroconf.plan.of_file import FilePlan
from zeroconf.rules.facts import Reader


def config(stage=2, micro=1, steps=1, **zero):
    return {
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": steps,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage, **zero},
    }


def linted(content, reader=None, name="ds.json", files=None, **facts):
    text = content if isinstance(content, str) else json.dumps(content)
    document = parse_document(text.encode(), name)
    who = Reader(reader, stated=True) if reader else Reader()
    return lint_document(document, reader=who, known=Known(facts, newest_releases()), siblings=among(files or {}))


def findings(content, **how):
    return [one for one in linted(content, **how).findings if one.rule.code.startswith(("ZC3", "ZC4", "ZC5"))]


def drawn(content, **facts):
    return {(one.rule.code, one.severity) for one in findings(content, **facts)}


def only(content, code, **facts):
    (found,) = [one for one in findings(content, **facts) if one.rule.code == code]
    return found


def step_seconds(content, facts):
    """The predicted time of the file's plan."""
    loaded, _ = api.load_facts(facts)
    values = json.loads(content) if isinstance(content, str) else content
    return FilePlan(loaded, parse_config(values, "ds.json", zero_init=True)).candidate.estimate.step.total_seconds
