"""What a fix changes, as a unified diff that ``patch -p0`` takes."""

from __future__ import annotations

import difflib
import re

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def unified_diff(path: str, before: str, after: str) -> str:
    """The diff of one file; only a line feed ends a line, as patch sees it."""
    lines = difflib.unified_diff(_LINE.findall(before), _LINE.findall(after), path, path)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
