"""Which comments edits would lose, or leave to stand above something else."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING

from zeroconf.document.edit import line_start, starts_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroconf.document.document import Document
    from zeroconf.document.edit import Edit


def keeps_comments(document: Document, edits: Sequence[Edit]) -> bool:
    """Whether every comment stays with what it stands beside.

    One that goes together with a value has to come back in what is written, and what goes must have no comment right
    above or behind it, which would stand beside something else then. An edit of comments alone is meant.
    """
    written = [edit.text for edit in edits if edit.text]
    return not any(_loses(document, edit, written) for edit in edits)


def _loses(document: Document, edit: Edit, written: list[str]) -> bool:
    comments = _comments(document)
    inside = comments[bisect_left(comments, (edit.start,)) : bisect_left(comments, (edit.end,))]
    position, others = edit.start, ""
    for start, end in inside:
        others += document.text[position:start]
        position = end
    others += document.text[position : edit.end]
    if not others.strip(" \t\r\n,"):
        return False
    is_lost = any(all(document.text[start:end] not in new for new in written) for start, end in inside)
    return is_lost or (not edit.text and (_is_headed(document, edit.start) or _is_followed(document, edit.end)))


def _is_headed(document: Document, start: int) -> bool:
    """Whether the line above one that goes holds nothing but a comment."""
    text, comments = document.text, _comments(document)
    first = line_start(text, start)
    above = bisect_left(comments, (first,)) - 1
    if above < 0 or not starts_line(text, start):
        return False
    comment_start, comment_end = comments[above]
    return starts_line(text, comment_start) and line_start(text, first - 1) <= comment_end <= first


def _is_followed(document: Document, end: int) -> bool:
    """Whether a comment is what comes next on the line."""
    comments = _comments(document)
    behind = bisect_left(comments, (end,))
    return behind < len(comments) and not document.text[end : comments[behind][0]].strip(" \t,")


@lru_cache(maxsize=4)  # every fix of a file asks
def _comments(document: Document) -> list[tuple[int, int]]:
    return sorted((mark.start, mark.end) for mark in document.marks if mark.what == "comment")
