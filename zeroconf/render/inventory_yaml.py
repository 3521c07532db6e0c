"""What ``zeroconf detect`` prints: an inventory in YAML, each value with its source, each gap marked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeroconf.detect.findings import Findings

# in the order of the inventory's own keys; what is not known stands in its place as a comment
_KEYS = {
    "nodes": (),
    "gpus_per_node": (),
    "gpu": ("name", "memory", "bf16_tflops", "fp16_tflops", "memory_bandwidth"),
    "host_memory": (),
    "nvme": ("path", "capacity", "read", "write"),
    "intra_node": (),
    "network": ("bandwidth", "measured", "latency"),
}
_PLAIN = re.compile(r"[/\w][\w./+-]*", re.ASCII)


def inventory_yaml(findings: Findings) -> str:
    """The inventory's text; comments say where each value came from, and what is unknown and why."""
    lines = ["# written by zeroconf detect; --hardware FILE reads it"]
    lines += [f"# note: {_comment(note)}" for note in findings.notes]
    for key, parts in _KEYS.items():
        value = findings.values.get(key)
        source = _remark(findings, key)
        if isinstance(value, dict):
            lines.append(f"{key}:{source}")
            lines += [line for part in parts if (line := _part(findings, key, part, value))]
        elif value is not None:
            lines.append(f"{key}: {_scalar(value)}{source}")
        elif source:
            lines.append(f"# {key}:{source.replace('  # ', ' ', 1)}")
    return "\n".join(lines) + "\n"


def _part(findings: Findings, key: str, part: str, value: dict[str, Any]) -> str:
    if part in value:
        return f"  {part}: {_scalar(value[part])}"
    why = findings.unknown.get(f"{key}.{part}")
    return f"  # {part}: unknown; {_comment(why)}" if why else ""


def _remark(findings: Findings, key: str) -> str:
    if key in findings.unknown:
        return f"  # unknown; {_comment(findings.unknown[key])}"
    return f"  # {_comment(findings.sources[key])}" if key in findings.sources else ""


def _scalar(value: object) -> str:
    """Bare where every reader takes it for the same text, else as JSON, which is YAML too."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        import yaml  # noqa: PLC0415  (only for YAML)

        if yaml.safe_load(value) == value:
            return value
    return json.dumps(value)


def _comment(text: str) -> str:
    """On one line, in letters that every stream has."""
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return shown.encode("ascii", "backslashreplace").decode()
