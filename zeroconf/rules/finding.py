"""What the linter reports: a problem at its place in a file."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.document.comments import keeps_comments

if TYPE_CHECKING:
    from zeroconf.document.document import Document
    from zeroconf.document.edits import Fix
    from zeroconf.document.node import Path
    from zeroconf.rules.registry import Problem, Rule, Severity


_OPTIONS = re.compile(r"--[a-z-]+( and --[a-z-]+| with a number of GPUs)?")


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule: ``document.text[start:end]`` is the key or value that breaks it.

    ``lacks`` are paths that the file has not, any of which would settle the finding.
    """

    rule: Rule
    document: Document
    severity: Severity
    message: str
    path: Path
    start: int
    end: int
    fix: Fix | None
    lacks: tuple[Path, ...] = ()

    @property
    def pointer(self) -> str:
        """The path as a JSON pointer (RFC 6901); in a script the option's name."""
        if self.document.kind == "script":
            return str(self.path[-1]) if self.path else ""
        return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in self.path)


class Skipped(NamedTuple):
    """A rule, or with ``code`` None a whole file, that was not checked; ``needs`` says what is missing, or why."""

    path: str
    code: str | None
    needs: str

    @property
    def lacks_options(self) -> bool:
        """Whether ``needs`` names options; else it is a sentence, which may begin with one."""
        return _OPTIONS.fullmatch(self.needs) is not None


def place(document: Document, problem: Problem) -> tuple[int, int]:
    """Where a problem points: its span, or its path's value or key, or the nearest part that the file has."""
    if problem.span is not None:
        return problem.span
    if document.root is None:
        return 0, 0
    node = document.root
    key = None
    for index, step in enumerate(problem.path):
        below = node.child(step)
        if below is None:
            # missing: the block's key says where, its whole text would not
            return (key.start, key.end) if key else (document.root.start, document.root.start + 1)
        key = node.member(step) if isinstance(step, str) else None
        node = below
        if index == len(problem.path) - 1 and (problem.on_key or node.kind == "mapping") and key:
            return key.start, key.end
    return node.start, node.end


def finding(document: Document, rule: Rule, problem: Problem) -> Finding:
    """The problem as a finding of the rule; a fix that parts a comment from its value is not safe."""
    start, end = place(document, problem)
    severity = problem.severity or rule.severity
    is_there = problem.lacks or document.root is None or document.root.at(problem.path) is not None
    lacks = problem.lacks if is_there else (problem.path,)
    fix = problem.fix
    if fix is not None and fix.safe and not keeps_comments(document, fix.edits):
        fix = replace(fix, safe=False)
    return Finding(rule, document, severity, problem.message, problem.path, start, end, fix, lacks)
