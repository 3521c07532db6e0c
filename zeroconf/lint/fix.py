"""Fixes applied to a text until nothing changes; one that does not cure its finding is not applied."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.document.edits import apply
from zeroconf.document.read import parse_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zeroconf.document.document import Document
    from zeroconf.document.edits import Edit
    from zeroconf.rules.finding import Finding

_MOST_ROUNDS = 100
_BYTE_ORDER_MARK = "\ufeff"


class Fixed(NamedTuple):
    """A document with its fixes in it, and the findings that they cured."""

    document: Document
    cured: tuple[Finding, ...]


def can_fix(finding: Finding, *, unsafe: bool) -> bool:
    """Whether the finding has a fix that may be applied."""
    return finding.fix is not None and bool(finding.fix.edits) and (finding.fix.safe or unsafe)


def is_faithful(document: Document, content: bytes) -> bool:
    """Whether the text can be written back: it holds every byte of the file."""
    return whole_text(document).encode("utf-8", "surrogatepass") == content


def whole_text(document: Document) -> str:
    """The text as it stands in a file, with its byte order mark."""
    return _BYTE_ORDER_MARK * document.has_bom + document.text


def fix_document(document: Document, lint: Callable[[Document], Sequence[Finding]], *, unsafe: bool) -> Fixed:
    """The document after all its fixes: in each round those that do not overlap, then it is read and linted anew.

    A round whose fixes do not cure all that they should, or after which the text is harder to read, is taken back
    and tried with the first half of them, down to the first alone; where that fails, it is left out for good.
    """
    findings = lint(document)
    cured: list[Finding] = []
    refused: set[tuple[object, ...]] = set()
    seen = {document.text}
    for _ in range(_MOST_ROUNDS):
        able = [one for one in findings if can_fix(one, unsafe=unsafe) and _identity(one) not in refused]
        together = _without_overlaps(able)
        if not together:
            break
        for batch in _halved(together):
            after = _edited(document, batch)
            if after is None or after.text in seen:
                continue
            remaining = lint(after)
            if _is_cured(batch, findings, remaining) and _is_no_worse(after, document):
                document, findings = after, remaining
                seen.add(after.text)
                cured += batch
                break
        else:
            refused.add(_identity(together[0]))
    return Fixed(document, tuple(cured))


def _edited(document: Document, batch: Sequence[Finding]) -> Document | None:
    """The document after the fixes, read anew; None when a fix contradicts itself."""
    edits = tuple(edit for finding in batch for edit in _edits(finding))
    try:
        text = apply(document.text, edits)
    except ValueError:
        return None
    content = (_BYTE_ORDER_MARK * document.has_bom + text).encode("utf-8", "surrogatepass")
    return parse_document(content, document.path)


def _edits(finding: Finding) -> tuple[Edit, ...]:
    return finding.fix.edits if finding.fix else ()


def _identity(finding: Finding) -> tuple[object, ...]:
    return finding.rule.code, finding.path, finding.message


def _halved(batch: list[Finding]) -> Iterator[list[Finding]]:
    """The batch, its first half, the half of that, ... its first finding alone."""
    while batch:
        yield batch
        batch = batch[: len(batch) // 2]


def _without_overlaps(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, first come first served, whose edits touch no other's."""
    taken: list[tuple[int, int]] = []  # sorted, and apart from each other but for those of one finding
    chosen: list[Finding] = []
    for finding in findings:
        spans = [(edit.start, edit.end) for edit in _edits(finding)]
        if not any(_touches(span, taken) for span in spans):
            for span in spans:
                insort(taken, span)
            chosen.append(finding)
    return chosen


def _touches(span: tuple[int, int], taken: Sequence[tuple[int, int]]) -> bool:
    """Whether a span shares text with one that is taken, or one would insert where the other begins or ends."""
    after = bisect_left(taken, span)
    return (after < len(taken) and taken[after][0] <= span[1]) or (after > 0 and taken[after - 1][1] >= span[0])


def _is_cured(batch: Sequence[Finding], before: Sequence[Finding], after: Sequence[Finding]) -> bool:
    """Whether each rule finds less by as many as were fixed."""
    had, has, fixed = (Counter(one.rule.code for one in findings) for findings in (before, after, batch))
    return all(has[code] <= had[code] - number for code, number in fixed.items())


def _is_no_worse(after: Document, before: Document) -> bool:
    """Whether the text still has values, and is still the same kind of file."""
    return (after.root is not None or before.root is None) and (after.kind == before.kind or before.root is None)
