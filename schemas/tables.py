"""Joins hand-kept facts with what each release's sources say, and writes the key tables.

A table lists blocks by dotted path; a key's ``since`` and ``until`` are the first and the last of the releases read
that know it, left out where that is the oldest or the newest.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extract_models import is_model, model_fields
from extract_reads import read_attributes, read_keys

if TYPE_CHECKING:
    from extract_source import Package

HERE = Path(__file__).parent
Facts = dict[str, Any]
FIELDS = (
    "type",
    "enum",
    "items",
    "minimum",
    "exclusive_minimum",
    "maximum",
    "exclusive_maximum",
    "multiple_of",
    "default",
    "earlier_defaults",
    "block",
    "read_at",
    "auto",
    "required",
    "since",
    "until",
    "alias_of",
    "deprecated",
    "dead",
    "description",
    "source",
)


class Undescribed(Exception):  # noqa: N818 - it tells the maintainer what to write
    """Keys that the sources read and the facts do not describe, or the other way round."""


def facts(library: str) -> Facts:
    """The hand-kept facts of a library."""
    return tomllib.loads((HERE / f"{library}_facts.toml").read_text(encoding="utf-8"))


def build(library: str, packages: dict[str, Package]) -> Facts:
    """The key table of a library over its releases, oldest first."""
    content = facts(library)
    by_path = {block["path"]: block for block in content["block"]}
    blocks, problems = {}, []
    for path, block in by_path.items():
        source = by_path[block["same_as"]] if "same_as" in block else block
        hand = source["keys"] | {name: source["keys"].get(name, {}) | key for name, key in block["keys"].items()}
        found = {release: _found(package, source) for release, package in packages.items()}
        blocks[path] = {
            "unknown": source["unknown"],
            "auto": source["auto"],
            **_strict_since(source),
            "description": block["description"],
            "source": "; ".join(_references(source)),
            "keys": _keys(path, hand, found, problems),
        }
    if problems:
        raise Undescribed("\n".join(problems))
    return {
        "$comment": "Written by schemas/update.py.",
        "releases": list(packages),
        "elsewhere": content.get("elsewhere", {}),
        "blocks": blocks,
    }


def text(table: Facts) -> str:
    """The table as JSON, one key a line."""
    lines = ["{", *(f' "{name}": {json.dumps(table[name])},' for name in ("$comment", "releases", "elsewhere"))]
    lines.append(' "blocks": {')
    blocks = list(table["blocks"].items())
    for path, block in blocks:
        head = json.dumps({name: value for name, value in block.items() if name != "keys"})[:-1]
        keys = ",\n".join(f"   {json.dumps(name)}: {json.dumps(key)}" for name, key in block["keys"].items())
        end = "" if path == blocks[-1][0] else ","
        lines.append(f'  {json.dumps(path)}: {head}, "keys": {{\n{keys}\n  }}}}{end}')
    return "\n".join([*lines, " }", "}"]) + "\n"


def _references(block: Facts) -> list[str]:
    return [block["read_by"]] if isinstance(block.get("read_by"), str) else block.get("read_by", [])


def _found(package: Package, block: Facts) -> dict[str, Facts] | None:
    """The keys that one release's sources show in a block; None when the release has no such block."""
    keys: dict[str, Facts] = {}
    present = False
    for reference in _references(block):
        module, _, name = reference.partition(":")
        if package.scope(module, name) is None:
            continue
        present = True
        if is_model(package, module, name):
            keys |= model_fields(package, module, name)
        else:
            read = read_attributes(package, module, name, block["attributes"]) if "attributes" in block else None
            read = read_keys(package, module, name, block.get("receivers", [])) if read is None else read
            for key, found in read.items():
                keys[key] = keys.get(key, {}) | found
    ignored = set(block.get("ignore", []))
    known = set(block["keys"])
    return (
        {key: found for key, found in keys.items() if key not in ignored and (key in known or not block.get("only"))}
        if present
        else None
    )


def _strict_since(block: Facts) -> Facts:
    return {"strict_since": block["strict_since"]} if "strict_since" in block else {}


def _keys(
    path: str,
    hand: dict[str, Facts],
    found: dict[str, dict[str, Facts] | None],
    problems: list[str],
) -> dict[str, Facts]:
    seen = {release: keys for release, keys in found.items() if keys is not None}
    names = list(hand) + [name for keys in seen.values() for name in keys if name not in hand]
    result: dict[str, Facts] = {}
    for name in dict.fromkeys(names):
        releases = [release for release in found if name in (found[release] or {})]
        read = found[releases[-1]][name] if releases else {}
        described = hand.get(name) or hand.get(read.get("alias_of", ""))
        if described is None:
            problems.append(f"{path or 'top level'}: {name} is read (release {releases[-1]}) and not described")
            continue
        result[name] = _merged(described, read, releases, list(found))
    return result


def _merged(described: Facts, read: Facts, releases: list[str], every: list[str]) -> Facts:
    given = {name: value for name, value in described.items() if name not in {"text", "hand"}}
    merged = read | given | {"description": described["text"]}
    if isinstance(merged.get("type"), str):
        merged["type"] = merged["type"].split("|")
    if "enum_also" in merged:
        merged["enum"] = merged["enum"] + merged["enum_also"]
    if releases:
        if releases[0] != every[0]:
            merged.setdefault("since", releases[0])
        if releases[-1] != every[-1]:
            merged.setdefault("until", releases[-1])
    return {name: merged[name] for name in FIELDS if name in merged and merged[name] not in ([], None, "")}
