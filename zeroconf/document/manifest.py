"""The files that a Kubernetes manifest holds: what its ConfigMaps mount, and the scripts that its containers run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from zeroconf.document.read import parse_document, sniff
from zeroconf.document.recognise import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document

_HEADER = re.compile(r" *(?:- +)?(?:([\w.-]+): +)?\|[-+]?\s*(?:#.*)?")


def files_in_manifest(manifest: Document) -> dict[str, Document]:
    """The literal blocks of a manifest that may be ours, as files by name; their places are those in the manifest.

    A block without a name has the number of its line. What is no manifest has none.
    """
    if manifest.note != MANIFEST:
        return {}
    lines = manifest.text.split("\n")
    found = {}
    for name, start, end in _blocks(lines):
        if not sniff("\n".join(lines[start:end]).encode(errors="replace")):
            continue
        kept = range(start, end)
        text = "\n".join(line if number in kept else _blank(line) for number, line in enumerate(lines))
        found[name] = replace(parse_document(text.encode(errors="replace"), name), path=manifest.path)
    return found


def _blocks(lines: list[str]) -> Iterator[tuple[str, int, int]]:
    """The name of each block, its first line, and the line behind it."""
    end = 0
    for number, line in enumerate(lines):
        header = _HEADER.fullmatch(line)
        if header is None or number < end:
            continue
        end = number + 1
        depth = 0
        while end < len(lines) and (not lines[end].strip() or _depth(lines[end]) >= max(depth, 1)):
            depth = depth or _depth(lines[end])
            end += 1
        yield header[1] or str(number + 1), number + 1, end


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _blank(line: str) -> str:
    return " " * len(line.rstrip("\r")) + "\r" * line.endswith("\r")
