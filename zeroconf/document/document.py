"""A linted file: its text, its values with places, and what its reader noticed about the text itself."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from zeroconf.document.edit import line_starts

if TYPE_CHECKING:
    from zeroconf.document.node import Node, Path

Syntax = Literal["json", "yaml", "hostfile", "shell"]
Kind = Literal["ds_config", "accelerate", "hostfile", "script", "template", "foreign", "unknown"]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something about the text that the values no longer show: a comment, a second key, a broken token.

    ``what`` is its kind ("syntax", "comment", "trailing-comma", "duplicate", "bom", ...), ``detail`` the words for it.
    """

    what: str
    start: int
    end: int
    detail: str = ""
    path: Path = ()


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One file.

    ``text`` is without a byte order mark, line ends as they are in the file; every place counts its code points.
    ``root`` is None when the text has no values (see the marks). ``configs`` holds the paths of the DeepSpeed
    blocks: the root itself for a ds_config, ``("deepspeed",)`` for a block in a YAML. ``note`` says why a template
    or a foreign file is not linted.
    """

    path: str
    text: str
    syntax: Syntax
    kind: Kind
    root: Node | None = None
    marks: tuple[Mark, ...] = ()
    configs: tuple[Path, ...] = ()
    note: str = ""
    has_bom: bool = False

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a place, both from 1; CR LF, LF and a lone CR end a line."""
        starts = line_starts(self.text)
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line_span(self, number: int) -> tuple[int, int]:
        """Where a line, from 1, starts, and where the next one does."""
        starts = line_starts(self.text)
        return starts[number - 1], starts[number] if number < len(starts) else len(self.text) + 1

    def line(self, number: int) -> str:
        """The text of a line, from 1, without its end."""
        start, end = self.line_span(number)
        return self.text[start:end].rstrip("\r\n")
