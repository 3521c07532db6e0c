"""Files to documents: decoded, parsed, and recognised by what they hold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zeroconf.document.document import Document, Mark
from zeroconf.document.hostfile import read_hostfile
from zeroconf.document.json import read_json
from zeroconf.document.recognise import is_hostfile, may_launch, recognise, sniff
from zeroconf.document.trouble import SyntaxTrouble

if TYPE_CHECKING:
    from zeroconf.document.node import Node

__all__ = ["parse_document", "sniff"]

_UTF8_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_YAML_NAMES = (".yaml", ".yml")
_SHELL_NAMES = (".sh", ".bash", ".sbatch", ".slurm")
_SHEBANG = re.compile(r"#![^\n]*\b(?:ba|da|k|z)?sh\b")
_NO_LAUNCH = "a script without a launch line of deepspeed, accelerate, torchrun or python --deepspeed"
# behind blank lines, comments and ---, without any name that says so
_MANIFEST = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n|---[^\n]*\n)*(?:apiVersion|kind|metadata):\s")
_JSON_NAMES = (".json", ".hjson", ".json5", ".jsonc")


def parse_document(content: bytes, path: str) -> Document:
    """A file's bytes as a document; ``path`` is its name, for messages and, where the content leaves a doubt, syntax.

    Never fails: what cannot be read is a mark.
    """
    has_bom = content.startswith(_UTF8_BOM)
    text, marks = _decoded(content.removeprefix(_UTF8_BOM))
    if has_bom:
        marks.append(Mark("bom", 0, 0))
    name = path.lower()
    named = name.endswith((*_YAML_NAMES, *_JSON_NAMES))
    is_file = not named and not _MANIFEST.match(text)
    if is_file and not name.endswith(_SHELL_NAMES) and is_hostfile(text, path):
        root, noticed = read_hostfile(text)
        return Document(path, text, "hostfile", "hostfile", root, (*marks, *noticed), has_bom=has_bom)
    if is_file and (script := _from_shell(content, text, path, marks)):
        return script
    if name.endswith(_YAML_NAMES):
        return _json_in_yaml(text, path, marks, has_bom=has_bom) or _from_yaml(text, path, marks, has_bom=has_bom)
    if name.endswith(_JSON_NAMES) or text.lstrip()[:1] in {"{", "["}:
        return _from_json(text, path, marks, has_bom=has_bom)
    return _from_yaml(text, path, marks, has_bom=has_bom)


def _from_shell(content: bytes, text: str, path: str, marks: list[Mark]) -> Document | None:
    """A script with a launch line; one without is told by its name or its first line, and is not linted."""
    is_named = path.lower().endswith(_SHELL_NAMES) or bool(_SHEBANG.match(text))
    if not is_named and not may_launch(content):
        return None
    from zeroconf.document.launches import read_launches  # noqa: PLC0415  (most files are no scripts)

    root = read_launches(text)
    if root is not None:
        return Document(path, text, "shell", "script", root, tuple(marks))
    return Document(path, text, "shell", "unknown", note=_NO_LAUNCH) if is_named else None


def _json_in_yaml(text: str, path: str, marks: list[Mark], *, has_bom: bool) -> Document | None:
    """A ds_config in JSON under a YAML's name, which DeepSpeed opens all the same; Accelerate's own file is YAML."""
    if text.lstrip()[:1] != "{":
        return None
    try:
        read_json(text)
    except SyntaxTrouble:
        return None
    document = _from_json(text, path, marks, has_bom=has_bom)
    return (
        document
        if document.kind == "ds_config" and not any(mark.what == "comment" for mark in document.marks)
        else None
    )


def _from_json(text: str, path: str, marks: list[Mark], *, has_bom: bool) -> Document:
    root, noticed = _read_json(text)
    found = recognise(root, noticed, text, is_json=True)
    return Document(path, text, "json", found.kind, root, (*marks, *noticed), found.configs, found.note, has_bom)


def _from_yaml(text: str, path: str, marks: list[Mark], *, has_bom: bool) -> Document:
    from zeroconf.document.yaml import read_yaml  # noqa: PLC0415  (PyYAML only when a YAML is read)

    root: Node | None = None
    try:
        root, noticed = read_yaml(text)
    except SyntaxTrouble as trouble:
        noticed = [_mark(trouble)]
    found = recognise(root, noticed, text, is_json=False)
    return Document(path, text, "yaml", found.kind, root, (*marks, *noticed), found.configs, found.note, has_bom)


def _read_json(text: str) -> tuple[Node | None, list[Mark]]:
    """JSON, or the HJSON that DeepSpeed takes; a mark with the reason when it is neither."""
    try:
        root, marks = read_json(text)
    except SyntaxTrouble as trouble:
        if trouble.what in {"empty", "too-deep"}:
            return None, [_mark(trouble)]
        # the larger language costs its import only where it is used
        from zeroconf.document.hjson import read_hjson  # noqa: PLC0415

        try:
            root, marks = read_hjson(text)
        except SyntaxTrouble as worse:
            from zeroconf.document.python import python_dict  # noqa: PLC0415  (as above)

            if pasted := python_dict(text):
                return None, [pasted]
            is_better = trouble.what == "dialect" or worse.what == "too-deep"
            return None, [_mark(worse if is_better else trouble)]
    if root.kind != "mapping":
        what = "a list" if root.kind == "sequence" else "a single value"
        return None, [Mark("syntax", root.start, root.end, f"{what}: a configuration is a mapping, {{...}}")]
    return root, marks


def _mark(trouble: SyntaxTrouble) -> Mark:
    what = "syntax" if trouble.what == "dialect" else trouble.what
    return Mark(what, trouble.start, trouble.end, trouble.message)


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
