"""The report's page: its template, style and script, filled with a decision's figures."""

from __future__ import annotations

import json
from html import escape
from string import Template
from typing import TYPE_CHECKING

import click

from zeroconf.about import VERSION
from zeroconf.render.estimate_text import estimate_text
from zeroconf.render.report.data import report_json
from zeroconf.render.text import decision_text
from zeroconf.resources import data_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroconf.render.report.data import Own
    from zeroconf.types import Decision


def report_html(
    decision: Decision, scenarios: Sequence[Decision], own: Own | None, given: Mapping[str, str | None]
) -> str:
    """One file that fetches nothing; ``scenarios`` are decided like ``decision``, which is one of them.

    ``given`` are the command line's facts, which commands in the text repeat.
    """
    facts = decision.facts
    texts = [decision_text(decision, given)]
    if own:
        texts.append(f"{own.name}\n\n{estimate_text(own.facts, [own.candidate.estimate], one=True)}")
    title = f"{facts.model.name} on {facts.cluster.num_gpus} x {facts.cluster.gpu.name}"
    return Template(_part("page.html")).substitute(
        version=escape(VERSION),
        title=escape(title),
        style=_part("report.css"),
        script=_part("report.js"),
        data=_embedded(report_json(decision, scenarios, own)),
        text=escape(click.unstyle("\n\n".join(texts))),
    )


def _part(name: str) -> str:
    return data_path(f"templates/report/{name}").read_text(encoding="utf-8")


def _embedded(value: object) -> str:
    """JSON that no markup in it can end: HTML ends a script at ``</script``, and reads ``<!--`` there."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").encode("utf-8", "replace").decode()
