"""Findings as SARIF 2.1.0, for GitHub's code scanning and others.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/sarif-v2.1.0-errata01-os.html
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from zeroconf.about import VERSION
from zeroconf.render.rule_page import page_markdown
from zeroconf.rules.page import read_page

if TYPE_CHECKING:
    from zeroconf.document.document import Document
    from zeroconf.lint.run import Report
    from zeroconf.rules.finding import Finding, Skipped
    from zeroconf.rules.registry import Rule

Json = dict[str, Any]
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_GITHUB_SEVERITIES = {"error": "error", "warning": "warning", "info": "recommendation"}


def findings_sarif(report: Report) -> Json:
    """One run: the findings, those that were ignored with their reasons, and the rules that they broke."""
    found = [(finding, None) for finding in report.findings]
    ignored = [(one.finding, one) for one in report.suppressed]
    codes = sorted({finding.rule.code for finding, _ in (*found, *ignored)})
    rules = {finding.rule.code: finding.rule for finding, _ in (*found, *ignored)}
    seen: Counter[str] = Counter()
    results = []
    for finding, suppressed in (*found, *ignored):
        result = _result(finding, codes.index(finding.rule.code), seen)
        if suppressed:
            kind = "inSource" if suppressed.in_file else "external"
            result["suppressions"] = [{"kind": kind, "justification": suppressed.reason}]
        results.append(result)
    invocation = {"executionSuccessful": not report.failures, "toolExecutionNotifications": _notifications(report)}
    driver = {"name": "zeroconf", "version": VERSION, "rules": [_rule(rules[code]) for code in codes]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "newlineSequences": ["\r\n", "\n", "\r"],
        "invocations": [invocation],
        "results": results,
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> Json:
    page = read_page(rule)
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": page.summary},
        "fullDescription": {"text": page.why},
        "help": {"text": f"{page.summary}\n\n{page.why}", "markdown": page_markdown(page)},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {
            "precision": rule.confidence,
            "problem.severity": _GITHUB_SEVERITIES[rule.severity],
            "tags": ["deepspeed", "accelerate"],
        },
    }


def _result(finding: Finding, rule_index: int, seen: Counter[str]) -> Json:
    document = finding.document
    artifact = {"uri": uri(document.path), "uriBaseId": "%SRCROOT%"}
    if artifact["uri"].startswith("file:"):
        del artifact["uriBaseId"]
    result = {
        "ruleId": finding.rule.code,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": artifact,
                    "region": _region(document, finding.start, finding.end),
                },
                "logicalLocations": [{"fullyQualifiedName": finding.pointer}],
            }
        ],
        # the name is the only one that GitHub compares; by key and pointer, it survives moved lines
        "partialFingerprints": {"primaryLocationLineHash": _fingerprint(finding, artifact["uri"], seen)},
    }
    if finding.fix and finding.fix.edits:
        replacements = [
            {
                "deletedRegion": _region(document, edit.start, edit.end),
                "insertedContent": {"text": edit.text},
            }
            for edit in finding.fix.edits
        ]
        change = {"artifactLocation": artifact, "replacements": replacements}
        result["fixes"] = [{"description": {"text": finding.fix.title}, "artifactChanges": [change]}]
    return result


def _region(document: Document, start: int, end: int) -> Json:
    line, column = document.position(start)
    end_line, end_column = document.position(end)
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}


def _fingerprint(finding: Finding, where: str, seen: Counter[str]) -> str:
    what = f"{finding.rule.code} {where} {finding.pointer}"
    digest = hashlib.sha256(what.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    seen[digest] += 1
    return f"{digest}:{seen[digest]}"


def uri(path: str) -> str:
    """A path inside the current folder as a relative URI, any other as a file URI."""
    relative = os.path.relpath(path)
    if relative == os.pardir or relative.startswith(os.pardir + os.sep):
        return Path(os.path.abspath(path)).as_uri()  # noqa: PTH100  (links are not followed)
    return quote(os.fsencode(relative.replace(os.sep, "/")))


def _notifications(report: Report) -> list[Json]:
    """Files that could not be read, files that are no configuration, rules whose facts are missing."""
    failed = [{"level": "error", "message": {"text": failure}} for failure in report.failures]
    skipped = [{"level": "note", "message": {"text": f"{one.path}: {_why_skipped(one)}"}} for one in report.skipped]
    return failed + skipped


def _why_skipped(one: Skipped) -> str:
    if one.code is None:
        return one.needs
    return f"{one.code} was not checked{', it needs' if one.lacks_options else ':'} {one.needs}"
