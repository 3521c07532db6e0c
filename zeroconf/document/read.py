"""Files to documents: decoded, parsed, and recognised by what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document.document import Document, Mark
from zeroconf.document.json import read_json
from zeroconf.document.trouble import SyntaxTrouble

if TYPE_CHECKING:
    from zeroconf.document.node import Node

_UTF8_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


def parse_document(content: bytes, path: str) -> Document:
    """A file's bytes as a document; ``path`` is its name, for messages and, where the content leaves a doubt, syntax.

    Never fails: what cannot be read is a mark.
    """
    has_bom = content.startswith(_UTF8_BOM)
    text, marks = _decoded(content.removeprefix(_UTF8_BOM))
    if has_bom:
        marks.append(Mark("bom", 0, 0))
    root: Node | None = None
    try:
        root, noticed = read_json(text)
        marks += noticed
    except SyntaxTrouble as trouble:
        marks.append(Mark(trouble.what, trouble.start, trouble.end, trouble.message))
    return Document(path, text, "json", "ds_config", root, tuple(marks), configs=((),), has_bom=has_bom)


def _decoded(content: bytes) -> tuple[str, list[Mark]]:
    """The text, and a mark where it is not UTF-8."""
    for bom, encoding in _WIDE_BOMS:
        if content.startswith(bom):
            return content.decode(encoding, errors="replace"), [Mark("encoding", 0, 0, encoding.upper())]
    try:
        return content.decode(), []
    except UnicodeDecodeError as error:
        start = len(content[: error.start].decode())
        byte = content[error.start]
        return content.decode(errors="replace"), [Mark("encoding", start, start + 1, f"byte 0x{byte:02x}")]
