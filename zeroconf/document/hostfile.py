"""Hostfiles, as DeepSpeed's launcher reads them (launcher/runner.py, _parse_hostfile): ``host slots=N`` lines."""

from __future__ import annotations

import re

from zeroconf.document.document import Mark
from zeroconf.document.json import number
from zeroconf.document.node import Member, Node

_LINE = re.compile(r"[^\r\n]+")
_ENTRY = re.compile(r"(\S+)\s+slots=(\d+)")
# other spellings of an entry, of which every word is kept
_MEANT = re.compile(r"(\S+?)[\s,:]+slots?\s*[=:]\s*(\d+)(\s*#.*)?", re.IGNORECASE)


def read_hostfile(text: str) -> tuple[Node, list[Mark]]:
    """Hosts as keys, their slots as values, in the order of the file; bad lines and second entries are marks."""
    root = Node("mapping", [], 0, len(text))
    marks: list[Mark] = []
    hosts: set[str] = set()
    for line in _LINE.finditer(text):
        written = line.group().strip()
        start = line.start() + len(line.group()) - len(line.group().lstrip())
        if not written or written.startswith("#"):
            continue
        entry = _ENTRY.match(text, start, line.end())
        if entry is None:
            marks.append(Mark("bad-entry", start, start + len(written), _wanted(written)))
            continue
        if entry[1] in hosts:
            marks.append(Mark("duplicate", *entry.span(1), entry[1], (entry[1],)))
        hosts.add(entry[1])
        slots = Node("scalar", number(entry[2]), *entry.span(2))
        root.value.append(Member(entry[1], *entry.span(1), slots))
    if not root.value:
        marks.append(Mark("empty", 0, 0, "no entry"))
    return root, marks


def _wanted(line: str) -> str:
    """The entry that a bad line spells in another way; empty when it says more than a host and its slots, or less."""
    meant = _MEANT.fullmatch(line)
    return f"{meant[1]} slots={meant[2]}{meant[3] or ''}" if meant else ""
