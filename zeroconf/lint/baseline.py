"""An earlier report as the list of findings that are known and need no report again."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from zeroconf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from zeroconf.rules.finding import Finding

_LIMIT_BYTES = 100_000_000
# another place and another release make no other finding
_PASSING = re.compile(r"(?<=\bline )\d+|(?<=\bDeepSpeed )\d+(?:\.\d+)+|(?<=\bAccelerate )\d+(?:\.\d+)+")


class _Key(NamedTuple):
    """What makes a finding the same as an earlier one: its absolute path, code, pointer and message."""

    path: str
    code: str
    pointer: str
    message: str


class Baseline(NamedTuple):
    """The findings of a report, their paths taken from each folder that they may be relative to."""

    name: str
    keys: frozenset[_Key]

    def knows(self, finding: Finding) -> bool:
        """Whether the report has the finding; its line may have moved, its words and values may not differ."""
        path = os.path.abspath(finding.document.path)  # noqa: PTH100  (links are not followed)
        return _key(path, finding.rule.code, finding.pointer, finding.message) in self.keys

    def note(self, paths: Iterable[str]) -> str:
        """What to say when the report has findings, but none in these files; empty otherwise."""
        known = {key.path for key in self.keys}
        if not known or any(os.path.abspath(path) in known for path in paths):  # noqa: PTH100  (as above)
            return ""
        return (
            f"The baseline {self.name} has no finding in any of these files: if it should, its paths lead elsewhere;"
            " write it anew in its own folder, with --no-baseline --format json."
        )


def read_baseline(path: Path, *folders: Path) -> Baseline:
    """The findings of a report of ``zeroconf lint --format json``, run in its own folder or in one of ``folders``.

    Raises:
        InputError: there is no such file, or it is no such report.
    """
    from zeroconf.inputs.text import read_text, shown_path  # noqa: PLC0415  (only where there is a baseline)

    text = read_text(path, _LIMIT_BYTES)
    try:
        report = json.loads(text)
        findings: Any = report["findings"] if report["schema"] == "zeroconf/lint/1" else None
        keys = frozenset(
            _key(os.path.join(folder, one["path"]), one["code"], one["pointer"], one["message"])  # noqa: PTH118  (pathlib keeps a/../b)
            for one in findings
            for folder in {path.absolute().parent, *folders}
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        msg = f"{shown_path(path)}: not a report of 'zeroconf lint --format json'; write one with --no-baseline"
        raise InputError(msg) from None
    return Baseline(shown_path(path), keys)


def _key(path: str, code: str, pointer: str, message: str) -> _Key:
    return _Key(os.path.normpath(path), code, pointer, _PASSING.sub("", message))
