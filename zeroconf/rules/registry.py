"""What a rule is, and how one is written: a decorated function whose parameters are the facts it needs.

The docstring is the rule's page: a first line that says what is wrong, why, then ``Example:`` with a file that draws
the finding and ``Use instead:`` with one that does not. Both are run as tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zeroconf.document.edits import Fix
    from zeroconf.document.node import Path

    Check = Callable[..., Iterator["Problem"]]

Severity = Literal["error", "warning", "info"]
Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One place where a rule is broken.

    ``path`` leads to the value from the root of the document; ``on_key`` points at its key instead. A path that is
    not in the file points at the nearest part of it that is (a missing key: at the block it is missing from).
    ``span`` overrides the place, in code points. ``severity`` overrides the rule's, where a release or a reader
    decides. ``lacks`` are the paths any of which would settle the problem, where it is about more missing keys than
    ``path``.
    """

    message: str
    path: Path = ()
    on_key: bool = False
    fix: Fix | None = None
    severity: Severity | None = None
    span: tuple[int, int] | None = None
    lacks: tuple[Path, ...] = ()


class Rule(NamedTuple):
    """A registered rule; ``needs`` are the facts in the order of the check's parameters."""

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    needs: tuple[str, ...]
    check: Check

    @property
    def page(self) -> str:
        """The rule's page, as written under its function."""
        return self.check.__doc__ or ""


RULES: dict[str, Rule] = {}


def rule(code: str, name: str, *, severity: Severity, confidence: Confidence = "high") -> Callable[[Check], Check]:
    """Registers a check under a code (``ZC201``) and a name that says the pattern (``batch-product``)."""

    def register(check: Check) -> Check:
        if code in RULES:
            msg = f"two rules have the code {code}: {RULES[code].name} and {name}"
            raise ValueError(msg)
        needs = check.__code__.co_varnames[: check.__code__.co_argcount]
        RULES[code] = Rule(code, name, severity, confidence, needs, check)
        return check

    return register
