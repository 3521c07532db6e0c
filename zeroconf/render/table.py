"""A plain table: columns as wide as their cells, numbers to the right."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> list[str]:
    """Lines of the table; columns named in ``right`` are aligned to the right, the last one is not padded."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(cells, widths, header, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return [line(header), *(line(row) for row in rows)]
