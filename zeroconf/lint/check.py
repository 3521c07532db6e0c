"""One file's findings under its settings: selected, not ignored, and not in the baseline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.lint.document import Linted, Suppressed, lint_document
from zeroconf.lint.siblings import beside

if TYPE_CHECKING:
    from zeroconf.document.document import Document
    from zeroconf.lint.settings import Settings
    from zeroconf.lint.siblings import Siblings
    from zeroconf.rules.finding import Finding


class Checked(NamedTuple):
    """What is shown of a file, how many findings its baseline hides, and every finding, shown or not."""

    linted: Linted
    num_known: int
    every: tuple[Finding, ...]


def check(document: Document, settings: Settings, siblings: Siblings | None = None) -> Checked:
    """Every rule on the document, and what the settings leave of it; ``siblings`` are those beside it, else given."""
    linted = lint_document(
        document,
        reader=settings.reader,
        releases=settings.releases,
        known=settings.known,
        siblings=siblings or beside(document.path),
    )
    every = (*linted.findings, *(one.finding for one in linted.suppressed))
    findings = [one for one in linted.findings if one.rule.code in settings.enabled]
    suppressed = [one for one in linted.suppressed if one.finding.rule.code in settings.enabled]
    skipped = tuple(one for one in linted.skipped if one.code is None or one.code in settings.enabled)
    reasons = settings.ignores_in(Path(os.path.abspath(document.path))) if settings.file_ignores else {}  # noqa: PTH100  (links are not followed)
    if reasons:
        suppressed += [
            Suppressed(one, reasons[one.rule.code], in_file=False) for one in findings if one.rule.code in reasons
        ]
        findings = [one for one in findings if one.rule.code not in reasons]
    new = [one for one in findings if not settings.baseline.knows(one)] if settings.baseline else findings
    return Checked(Linted(tuple(new), skipped, tuple(suppressed)), len(findings) - len(new), every)
