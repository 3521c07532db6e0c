"""Keys and plain values as text, in JSON and in YAML."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from zeroconf.document.edit import line_break, line_start

if TYPE_CHECKING:
    from zeroconf.document.document import Document

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff]")


def key_text(document: Document, key: str, *, quoted: bool = False) -> str:
    """A key; in YAML without quotes when it needs none and none are asked for, as a host in a hostfile."""
    if document.syntax == "hostfile":
        return key
    return json.dumps(key) if quoted or document.syntax == "json" else _yaml_text(key)


def flow_text(document: Document, value: Any, _indent: str = "") -> str:
    """A value on one line, in braces and brackets when it is a container."""
    return json.dumps(value) if document.syntax == "json" else _yaml_text(value)


def lines_text(document: Document, value: Any, indent: str) -> str:
    """A value as JSON writes it over several lines, one member a line; ``indent`` is that of the line it starts on."""
    if not isinstance(value, dict) or not value:
        return flow_text(document, value)
    inner = indent + unit(document)
    newline = line_break(document.text)
    members = (f"{key_text(document, key)}: {lines_text(document, item, inner)}" for key, item in value.items())
    return "{" + newline + inner + f",{newline}{inner}".join(members) + newline + indent + "}"


def unit(document: Document) -> str:
    """One level of indentation: that of the first member in braces that has a line of its own."""
    members = document.root.members if document.root else []
    before = document.text[line_start(document.text, members[0].start) : members[0].start] if members else ""
    return before if before and not before.strip() else "  "


def _yaml_text(value: Any) -> str:
    import yaml  # noqa: PLC0415  (PyYAML only when a YAML is edited)

    if isinstance(value, dict) and value:
        return "{" + ", ".join(f"{_yaml_text(key)}: {_yaml_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list) and value:
        return "[" + ", ".join(map(_yaml_text, value)) + "]"
    # line breaks and the like in double quotes, where they stay on one line; in a list, for quotes that braces need
    style = '"' if isinstance(value, str) and _CONTROL.search(value) else None
    text: str = yaml.safe_dump(
        [value], default_flow_style=True, default_style=style, width=float("inf"), allow_unicode=True
    )
    return text.strip()[1:-1]
