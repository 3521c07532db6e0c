"""The files that a Kubernetes manifest holds: what its ConfigMaps mount, and the scripts that its containers run."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from zeroconf.document.read import parse_document, sniff
from zeroconf.document.recognise import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document

_HEADER = re.compile(r" *(?:- +)?(?:([\w.-]+): +)?\|[-+]?\s*(?:#.*)?")
_OURS = {"ds_config", "accelerate", "hostfile", "script"}
_MOST_FILES = 100  # each is read with the blank lines above it, so that a file of thousands would take minutes


def files_in_manifest(manifest: Document) -> dict[str, Document]:
    """The literal blocks of a manifest that may be ours, as files by name; their places are those in the manifest.

    A block without a name has the number of its line. What is no manifest has none.
    """
    if manifest.note != MANIFEST:
        return {}
    lines = manifest.text.split("\n")
    blank = "".join(f"{_blank(line)}\n" for line in lines)
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    found: dict[str, Document] = {}
    for name, first, end in _blocks(lines):
        content = "\n".join(lines[first:end]).encode(errors="replace")
        if len(found) < _MOST_FILES and sniff(content) and parse_document(content, name).kind in _OURS:
            document = parse_document(blank[: starts[first]].encode() + content, name)
            found[name] = replace(document, path=manifest.path)
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
