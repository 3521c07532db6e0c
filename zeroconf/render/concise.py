"""Findings for people and editors: one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.render.excerpt import printable

if TYPE_CHECKING:
    from zeroconf.lint.run import Report


def findings_concise(report: Report) -> str:
    """``path:line:column: CODE severity message``; nothing at all without a finding."""
    lines = []
    for finding in report.findings:
        line, column = finding.document.position(finding.start)
        place = f"{printable(finding.document.path)}:{line}:{column}"
        lines.append(f"{place}: {finding.rule.code} {finding.severity} {printable(finding.message)}\n")
    return "".join(lines)
