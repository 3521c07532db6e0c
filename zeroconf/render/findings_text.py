"""Findings for people: place, message, the line with a mark, what would cure it, and a summary."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import click

from zeroconf.lint.fix import can_fix
from zeroconf.render.excerpt import excerpt, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zeroconf.lint.run import Report
    from zeroconf.rules.finding import Finding, Skipped
    from zeroconf.rules.registry import Severity

_COLOURS: Final[dict[Severity, str]] = {"error": "red", "warning": "yellow", "info": "cyan"}
_MOST_NAMED = 5


def findings_text(report: Report, *, unsafe: bool = False, fixed: str = "Fixed", summary: bool = True) -> str:
    """All findings, then the summary unless it is not wanted.

    ``unsafe``: whether unsafe fixes count as fixable; ``fixed`` says what was done with the fixes.
    """
    blocks = [_finding_text(finding, is_left_out=finding in report.left_out) for finding in report.findings]
    return "\n\n".join([*blocks, summary_text(report, unsafe=unsafe, fixed=fixed)] if summary else blocks)


def summary_text(report: Report, *, unsafe: bool = False, fixed: str = "Fixed") -> str:
    """The summary alone; its options are those of ``findings_text``."""
    return "\n".join(_summary(report, unsafe=unsafe, fixed=fixed))


def unusable_text(report: Report) -> str:
    """What the summary says of facts that were given, or named in a file, and cannot be used here; often nothing."""
    unusable = [one for one in report.skipped if one.code is not None and not one.lacks_options]
    return "".join(line + "\n" for line in _skipped(unusable))


def _place(finding: Finding) -> str:
    line, column = finding.document.position(finding.start)
    return f"{printable(finding.document.path)}:{line}:{column}"


def _finding_text(finding: Finding, *, is_left_out: bool) -> str:
    document, rule = finding.document, finding.rule
    line, _ = document.position(finding.start)
    place = click.style(f"{_place(finding)}:", bold=True)
    severity = click.style(finding.severity, fg=_COLOURS[finding.severity], bold=True)
    head = f"{place} {severity} {click.style(rule.code, bold=True)} [{rule.name}] {printable(finding.message)}"
    source, carets = excerpt(document, finding.start, finding.end)
    margin = " " * len(str(line))
    lines = [head, f"  {line} | {source}", f"  {margin} | {click.style(carets, fg=_COLOURS[finding.severity])}"]
    if finding.fix and finding.fix.edits:
        unsafe = "" if finding.fix.safe else " (unsafe)"
        left_out = " (left out)" if is_left_out else ""
        lines.append(f"  {margin} = fix: {printable(finding.fix.title)}{unsafe}{left_out}")
    return "\n".join(line.rstrip() for line in lines)


def _summary(report: Report, *, unsafe: bool, fixed: str) -> Iterator[str]:
    yield _found(report, fixed)
    yield from (_cured(finding) for finding in report.cured)
    open_findings = [finding for finding in report.findings if finding not in report.left_out]
    fixable = [finding for finding in open_findings if can_fix(finding, unsafe=unsafe)]
    more = sum(can_fix(finding, unsafe=True) for finding in open_findings) - len(fixable)
    if fixable:
        also = f" ({more} more with --unsafe-fixes)" if more else ""
        yield f"{len(fixable)} fixable with --fix{also}."
    elif more:
        yield f"{more} fixable with --fix --unsafe-fixes."
    for finding, why in report.left_out.items():
        title = finding.fix.title if finding.fix else ""
        yield f"Left out at {_place(finding)}: {printable(f'{title} {why}')}."
    unread = {printable(one.document.path): None for one in report.findings if _is_unread(one)}
    if unread:
        yield f"Further checks wait until the text can be read: {_listed(unread)}."
    if report.findings:
        worst = min(report.findings, key=lambda finding: [*_COLOURS].index(finding.severity))
        yield f"Why, with examples: zeroconf rule {worst.rule.code}"
    hidden = []
    if report.suppressed:
        hidden.append(f"{len(report.suppressed)} ignored with a reason")
    if report.num_known:
        hidden.append(f"{report.num_known} in the baseline")
    if hidden:
        yield f"Not shown: {', '.join(hidden)}."
    yield from _skipped(report.skipped)
    yield from report.notes


def _cured(finding: Finding) -> str:
    """One line of what was changed: a fix may bring to light what only the next one's rule sees."""
    how = "" if finding.fix is None else f" {finding.fix.title}{'' if finding.fix.safe else ' (unsafe)'}"
    return f"  {printable(finding.document.path)}: {finding.rule.code}{printable(how)}"


def _is_unread(finding: Finding) -> bool:
    document = finding.document
    return document.root is None and bool(document.marks) and finding.severity == "error"


def _found(report: Report, fixed: str) -> str:
    fixed = f"{fixed} {len(report.cured):,}. " if report.cured else ""
    files = _number(report.num_files, "file")
    if not report.findings:
        return f"{fixed}No problems in {files}." if report.num_files else f"{fixed}No configuration found."
    by_severity = Counter(finding.severity for finding in report.findings)
    counts = [_number(by_severity[severity], severity) for severity in _COLOURS if by_severity[severity]]
    num_with = len({finding.document.path for finding in report.findings})
    where = f"{num_with} of {files}" if num_with < report.num_files else files
    return f"{fixed}Found {', '.join(counts)} in {where}."


def _skipped(skipped: Sequence[Skipped]) -> Iterator[str]:
    """One line for each reason to leave out files, one for all rules that lack facts."""
    by_reason: dict[str, dict[str, None]] = {}
    by_need: dict[tuple[bool, str], dict[str, None]] = {}
    for one in skipped:
        if one.code is None:
            by_reason.setdefault(printable(one.needs), {})[printable(one.path)] = None
        else:
            by_need.setdefault((not one.lacks_options, one.needs), {})[one.code] = None
    for reason, paths in by_reason.items():
        yield f"Skipped {_listed(paths)}: {reason}."
    if by_need:
        # options that are missing concern every file, the other reasons one each
        needs = sorted(by_need.items(), key=lambda one: one[0][0])
        told = [
            f"{_listed(sorted(codes))} ({printable(need) if is_sentence else f'need {need}'})"
            for (is_sentence, need), codes in needs[:_MOST_NAMED]
        ]
        more = (
            f"; {_number(len(needs) - _MOST_NAMED, 'more reason')} in --format json" if len(needs) > _MOST_NAMED else ""
        )
        yield f"Rules not checked: {'; '.join(told)}{more}."


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    rest = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
    return ", ".join(every[:_MOST_NAMED]) + rest


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"
