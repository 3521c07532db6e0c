"""Fixes applied to a text until nothing changes; one that does not cure, or makes an error, is left out."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.document.edits import apply
from zeroconf.document.read import parse_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zeroconf.document.document import Document
    from zeroconf.document.edits import Edit
    from zeroconf.lint.check import Checked
    from zeroconf.rules.finding import Finding

_MOST_TRIES = 200
_BYTE_ORDER_MARK = "\ufeff"


class Fixed(NamedTuple):
    """A document with its fixes in it, what it draws now, the findings cured, and why others were not."""

    document: Document
    checked: Checked
    cured: tuple[Finding, ...] = ()
    left_out: Mapping[Finding, str] = MappingProxyType({})


def can_fix(finding: Finding, *, unsafe: bool) -> bool:
    """Whether the finding has a fix that may be applied."""
    return finding.fix is not None and bool(finding.fix.edits) and (finding.fix.safe or unsafe)


def is_faithful(document: Document, content: bytes) -> bool:
    """Whether the text can be written back: it holds every byte of the file."""
    return whole_text(document).encode("utf-8", "surrogatepass") == content


def whole_text(document: Document) -> str:
    """The text as it stands in a file, with its byte order mark."""
    return _BYTE_ORDER_MARK * document.has_bom + document.text


def fix_document(found: Fixed, check: Callable[[Document], Checked], *, unsafe: bool) -> Fixed:
    """The document after all its fixes: in each round those that do not overlap, then it is read and checked anew.

    A round with trouble is taken back, and its first half is tried; a fix that makes trouble alone is left out. When
    others came in after it, it is tried once more, since it may need them.
    """
    document, checked = found.document, found.checked
    cured: list[Finding] = []
    refused: dict[tuple[object, ...], str] = {}
    may_differ = False
    size: int | None = None
    seen = {document.text}
    for _ in range(_MOST_TRIES):
        able = (one for one in checked.linted.findings if can_fix(one, unsafe=unsafe) and _identity(one) not in refused)
        batch = _without_overlaps(able)[:size]
        if not batch:
            if not (refused and may_differ):
                break
            refused, may_differ, size = {}, False, None
            continue
        after = _edited(document, batch)
        now = check(after) if after and after.text not in seen else None
        trouble = _trouble(batch, document, checked, after, now) if after and now else "does not cure it"
        if after and now and not trouble:
            document, checked, size, may_differ = after, now, None, bool(refused)
            seen.add(after.text)
            cured += batch
        elif len(batch) > 1:
            size = (len(batch) + 1) // 2
        else:
            refused[_identity(batch[0])] = trouble
            size = None
    left_out = {one: refused[_identity(one)] for one in checked.linted.findings if _identity(one) in refused}
    return Fixed(document, checked, tuple(cured), left_out)


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


def _without_overlaps(findings: Iterable[Finding]) -> list[Finding]:
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


def _trouble(batch: Sequence[Finding], document: Document, had: Checked, after: Document, has: Checked) -> str:
    """What speaks against the fixes, as the end of a sentence about one of them; empty when nothing does."""
    if not _is_cured(batch, had.every, has.every) or not _is_no_worse(after, document):
        return "does not cure it"
    error = _new_error(had.every, has.every)
    if error is None or not _has_other_keys(document, after):
        return ""
    return f"would bring an error: {error.rule.code} {error.message}"


def _is_cured(batch: Sequence[Finding], before: Sequence[Finding], after: Sequence[Finding]) -> bool:
    """Whether each rule finds less by as many as were fixed."""
    had, has, fixed = (Counter(one.rule.code for one in findings) for findings in (before, after, batch))
    return all(has[code] <= had[code] - number for code, number in fixed.items())


def _is_no_worse(after: Document, before: Document) -> bool:
    """Whether the text still has values, and is still the same kind of file."""
    return (after.root is not None or before.root is None) and (after.kind == before.kind or before.root is None)


def _new_error(before: Sequence[Finding], after: Sequence[Finding]) -> Finding | None:
    """An error of a rule that has more of them than before; not by their places, which a rename changes."""
    had, has = ([one for one in findings if one.severity == "error"] for findings in (before, after))
    more = Counter(one.rule.code for one in has) - Counter(one.rule.code for one in had)
    known = {_identity(one) for one in had}
    # the new one comes first, then any
    return min((one for one in has if one.rule.code in more), key=lambda one: _identity(one) in known, default=None)


def _has_other_keys(before: Document, after: Document) -> bool:
    """Whether a key came or went: then a new error is the fix's doing.

    A renamed key may switch on what was ignored. Where only values or the text changed, or the text could not be
    read before, an error that shows now was there all along.
    """
    return before.root is not None and _keys(before) != _keys(after)


def _keys(document: Document) -> set[tuple[object, ...]]:
    return {path for path, holder, _ in document.root.walk() if holder} if document.root else set()
