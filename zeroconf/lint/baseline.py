"""An earlier report as the list of findings that are known and need no report again."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from zeroconf.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_LIMIT_BYTES = 100_000_000


class Key(NamedTuple):
    """What makes a finding the same as an earlier one: its absolute path, code and pointer; its line may move."""

    path: str
    code: str
    pointer: str


def key(path: str, code: str, pointer: str, folder: Path) -> Key:
    """The key of a finding whose path is relative to the folder."""
    return Key(os.path.normpath(os.path.join(folder, path)), code, pointer)  # noqa: PTH118  (pathlib keeps a/../b)


def read_baseline(path: Path, folder: Path) -> frozenset[Key]:
    """The findings of a report of ``zeroconf lint --format json`` that was run in ``folder``.

    Raises:
        InputError: there is no such file, or it is no such report.
    """
    from zeroconf.inputs.text import read_text, shown_path  # noqa: PLC0415  (only where there is a baseline)

    text = read_text(path, _LIMIT_BYTES)
    try:
        report = json.loads(text)
        findings: Any = report["findings"] if report["schema"] == "zeroconf/lint/1" else None
        return frozenset(key(one["path"], one["code"], one["pointer"], folder) for one in findings)
    except (ValueError, KeyError, TypeError, RecursionError):
        msg = f"{shown_path(path)}: not a report of 'zeroconf lint --format json'; write one with --no-baseline"
        raise InputError(msg) from None
