"""Findings as the JSON of schemas/lint.schema.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeroconf.document.document import Document
    from zeroconf.lint.run import Report
    from zeroconf.rules.finding import Finding

Json = dict[str, Any]


def findings_json(report: Report) -> Json:
    """The whole answer of ``lint --format json``; lines and columns from 1, columns in code points, ends exclusive."""
    return {
        "schema": "zeroconf/lint/1",
        "findings": [_finding_json(finding) for finding in report.findings],
        "skipped": [one._asdict() for one in report.skipped],
        "files": report.num_files,
    }


def region(document: Document, start: int, end: int) -> Json:
    """A part of the text by its lines and columns."""
    line, column = document.position(start)
    end_line, end_column = document.position(end)
    return {"line": line, "column": column, "end_line": end_line, "end_column": end_column}


def _finding_json(finding: Finding) -> Json:
    rule, document = finding.rule, finding.document
    return {
        "path": document.path,
        **region(document, finding.start, finding.end),
        "pointer": finding.pointer,
        "code": rule.code,
        "name": rule.name,
        "severity": finding.severity,
        "confidence": rule.confidence,
        "message": finding.message,
        "fix": _fix_json(finding),
        "help": f"zeroconf rule {rule.code}",
    }


def _fix_json(finding: Finding) -> Json | None:
    fix = finding.fix
    if fix is None or not fix.edits:
        return None
    edits = [{**region(finding.document, edit.start, edit.end), "text": edit.text} for edit in fix.edits]
    return {"title": fix.title, "safe": fix.safe, "edits": edits}
