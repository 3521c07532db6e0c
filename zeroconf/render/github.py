"""Findings as the workflow commands that GitHub Actions turns into annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeroconf.lint.run import Report
    from zeroconf.rules.finding import Finding

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def findings_github(report: Report) -> str:
    """One command a line."""
    return "".join(f"{_command(finding)}\n" for finding in report.findings)


def _command(finding: Finding) -> str:
    document, rule = finding.document, finding.rule
    line, column = document.position(finding.start)
    end_line, end_column = document.position(finding.end)
    places = {"file": document.path.replace("\\", "/"), "line": line, "endLine": end_line}
    if end_line == line:  # GitHub refuses columns of a span over several lines
        places |= {"col": column, "endColumn": end_column}
    places["title"] = f"{rule.code} {rule.name}"
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in places.items())
    return f"::{_COMMANDS[finding.severity]} {properties}::{_data(finding.message)}"


def _data(text: str) -> str:
    """As actions/toolkit escapes a message (packages/core/src/command.ts, escapeData)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """As actions/toolkit escapes a property (escapeProperty)."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
