"""Documents x rules -> findings: one document, or many files with what was selected, ignored and fixed."""

from __future__ import annotations

from zeroconf.lint.document import Linted, lint_document

__all__ = ["Linted", "lint_document"]
