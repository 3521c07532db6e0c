"""The files that a Kubernetes manifest holds: what its ConfigMaps mount, and the scripts that its containers run."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from zeroconf.document.edit import line_starts
from zeroconf.document.read import parse_document, sniff
from zeroconf.document.recognise import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document

# behind an anchor or a tag
_HEADER = re.compile(r"(?:[&!]\S*\s+)*\|")
_OURS = {"ds_config", "accelerate", "hostfile", "script"}
_CONFIGURATIONS = {"json", "hjson", "json5", "jsonc", "yaml", "yml"}
_SCRIPTS = {"sh", "bash", "sbatch", "slurm"}


class Part(NamedTuple):
    """A file in a manifest, under its key; ``holder`` is the number of the YAML document that it stands in."""

    name: str
    holder: int
    document: Document


class _Block(NamedTuple):
    """A literal block; its first line and the line behind it count from 0."""

    name: str
    holder: int
    first: int
    end: int


def files_in_manifest(manifest: Document) -> list[Part]:
    """The literal blocks of a manifest that are ours; their places are those in the manifest.

    A block that has no key is a script, named by the number of its line. What is no manifest has none.
    """
    if manifest.note != MANIFEST:
        return []
    text = manifest.text
    starts = [*line_starts(text), len(text)]
    found = []
    for block in _blocks(text, starts):
        content = text[starts[block.first] : starts[block.end]].encode(errors="replace")
        if sniff(content) and _is_ours(parse_document(content, block.name), block.name):
            document = parse_document(b"\n" * block.first + content, block.name)
            found.append(Part(block.name, block.holder, replace(document, path=manifest.path)))
    return found


def _blocks(text: str, starts: list[int]) -> Iterator[_Block]:
    from zeroconf.document.yaml import scalars  # noqa: PLC0415  (PyYAML only when a YAML is read)

    before: Any = None
    for holder, scalar in scalars(text):
        start: int = scalar.start_mark.index
        header = _HEADER.match(text, start) if scalar.style == "|" else None
        if header and (content := scalar.value.rstrip("\n")):
            first = bisect_right(starts, header.end())
            is_value = before is not None and text[before.end_mark.index : start].strip() == ":"
            name = before.value if is_value else f"{first}.sh"
            yield _Block(name, holder, first, min(first + content.count("\n") + 1, len(starts) - 1))
        before = scalar


def _is_ours(document: Document, name: str) -> bool:
    """Whether the key says so or, where it says nothing, the content does: a training's code is no faulty YAML."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    if document.kind not in _OURS or ending in {"py", "md", "txt"}:
        return False
    if document.kind == "script":
        return ending in {"", *_SCRIPTS}
    is_whole = document.root is not None and not any(mark.what == "syntax" for mark in document.marks)
    return ending in _CONFIGURATIONS or is_whole
