"""Fixes as edits of the text: only the spans concerned change, so comments and formatting survive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeroconf.document.document import Document
    from zeroconf.document.node import Path


@dataclass(frozen=True, slots=True)
class Edit:
    """``text[start:end]`` becomes ``text``; places in code points."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """What would cure a finding. ``safe``: the meaning intended by the file cannot change."""

    title: str
    edits: tuple[Edit, ...]
    safe: bool = True


def replace(document: Document, path: Path, value: Any) -> tuple[Edit, ...]:
    """The value at the path becomes another plain value."""
    raise NotImplementedError(document, path, value)


def rename(document: Document, path: Path, key: str) -> tuple[Edit, ...]:
    """The key at the path becomes another key."""
    raise NotImplementedError(document, path, key)


def remove(document: Document, path: Path) -> tuple[Edit, ...]:
    """The member at the path goes, with its comma and its line when it has one of its own."""
    raise NotImplementedError(document, path)


def insert(document: Document, path: Path, value: Any) -> tuple[Edit, ...]:
    """A new last member at the path; the mapping that holds it must exist."""
    raise NotImplementedError(document, path, value)


def move(document: Document, path: Path, to: Path) -> tuple[Edit, ...]:
    """The member goes to another path, its value's text as it is; the mapping there is created when missing."""
    raise NotImplementedError(document, path, to)
