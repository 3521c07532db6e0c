"""Joins hand-kept facts with what each release's sources say: the key tables.

A table lists blocks by dotted path. A key's facts are those of the newest release that knows it; ``since`` and
``until`` are the first and the last release read that do, left out where that is the oldest or the newest.
"""

from __future__ import annotations

import json
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extract_calls import arguments, read_attributes, read_keys
from extract_models import is_model, model_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from extract_source import Package

HERE = Path(__file__).parent
Facts = dict[str, Any]
ONE_WORD = ("type", "enum", "items", "minimum", "exclusive_minimum", "maximum", "exclusive_maximum", "multiple_of")
FIELDS = (
    *ONE_WORD,
    *("default", "earlier_defaults", "block", "read_at", "auto", "required", "since", "until"),
    *(
        "words",
        "not_zero",
        "any_case",
        "otherwise",
        "alias_of",
        "deprecated",
        "instead",
        "dead",
        "refused",
        "description",
        "source",
    ),
)


class Undescribed(Exception):  # noqa: N818 - it tells the maintainer what to write
    """Keys that the sources read and the facts do not describe, or the other way round."""


def build(library: str, packages: dict[str, Package], *, all_known: bool = True) -> Facts:
    """The key table of a library over its releases, oldest first.

    Without ``all_known`` a key may be described that none of these releases reads: there are not all of them.

    Raises:
        Undescribed: names every key that the sources and the facts do not agree on.
    """
    content = tomllib.loads((HERE / f"{library}_facts.toml").read_text(encoding="utf-8"))
    blocks = {block["path"]: block for block in content["block"]}
    problems: list[str] = []
    table: Facts = {
        "$comment": "Written by schemas/update.py.",
        "releases": list(packages),
        "elsewhere": content.get("elsewhere", {}),
        "blocks": {path: _block(block, blocks, packages, problems) for path, block in blocks.items()},
        "variants": {},
    }
    problems = [problem for problem in problems if all_known or not problem.endswith("in any release")]
    if problems:
        raise Undescribed("\n".join(problems))
    newest = list(packages.values())[-1]
    for variant in content.get("variant", []):
        for name in variant["types"]:
            known = table["blocks"][variant["of"]]["keys"]
            table["variants"].setdefault(variant["of"], {})[name] = _variant(variant, name, newest, known)
    return table


def text(table: Facts) -> str:
    """The table as JSON, one key a line."""
    lines = [f' "{name}": {json.dumps(table[name])},' for name in ("$comment", "releases", "elsewhere")]
    variants = [
        f'  "{path}": {{\n' + ",\n".join(f"   {json.dumps(name)}: {json.dumps(keys)}" for name, keys in types.items())
        for path, types in table["variants"].items()
    ]
    blocks = [
        f'  "{path}": {json.dumps({name: value for name, value in block.items() if name != "keys"})[:-1]}, "keys": {{\n'
        + ",\n".join(f"   {json.dumps(name)}: {json.dumps(key)}" for name, key in block["keys"].items())
        for path, block in table["blocks"].items()
    ]
    lines += [' "variants": {', ",\n".join(f"{part}\n  }}" for part in variants), " },"]
    lines += [' "blocks": {', ",\n".join(f"{part}\n  }}}}" for part in blocks), " }"]
    return "\n".join(["{", *lines, "}"]) + "\n"


def _block(block: Facts, blocks: dict[str, Facts], packages: dict[str, Package], problems: list[str]) -> Facts:
    source = blocks[block["same_as"]] if "same_as" in block else block
    hand = source["keys"] | {name: source["keys"].get(name, {}) | key for name, key in block["keys"].items()}
    found = {release: _found(package, source) for release, package in packages.items()}
    strict = [release for release, package in packages.items() if _is_strict(package, source)]
    newest = list(packages.values())[-1]
    result = {
        "unknown": source["unknown"],
        "auto": source["auto"],
        "strict_since": strict[0] if strict and any(found[old] for old in packages if old not in strict) else None,
        "description": block["description"],
        "source": "; ".join(_references(source)) if source["path"] else "",
        "keys": {
            name: _finished(key, source, newest)
            for name, key in _keys(block["path"], hand, found, problems, is_read="read_by" in source)
        },
    }
    return {name: value for name, value in result.items() if value not in (None, "")}


def _references(block: Facts) -> list[str]:
    given = block.get("read_by", [])
    return [given] if isinstance(given, str) else given


def _is_strict(package: Package, block: Facts) -> bool:
    places = [reference.partition(":")[::2] for reference in _references(block)]
    return any(is_model(package, module, name) for module, name in places)


def _found(package: Package, block: Facts) -> dict[str, Facts] | None:
    """The keys that one release's sources show in a block; None when the release has no such block."""
    models: dict[str, Facts] = {}
    keys: dict[str, Facts] = {}
    is_present = False
    for reference in _references(block):
        module, _, name = reference.partition(":")
        if package.scope(module, name) is None:
            continue
        is_present = True
        if is_model(package, module, name):
            models |= model_fields(package, module, name)
        elif "attributes" in block:
            keys |= read_attributes(package, module, name, block["attributes"])
        else:
            for key, facts in read_keys(package, module, name, block.get("receivers", [])).items():
                keys[key] = facts | keys.get(key, {})
    if models:
        return models
    unwanted = set(block.get("ignore", []))
    if block.get("only"):
        unwanted |= keys.keys() - block["keys"].keys()
    return {key: facts for key, facts in keys.items() if key not in unwanted} if is_present else None


def _keys(
    path: str, hand: dict[str, Facts], found: dict[str, dict[str, Facts] | None], problems: list[str], *, is_read: bool
) -> Iterator[tuple[str, Facts]]:
    """The block's keys with all their facts, those described first."""
    every = list(found)
    read_names = [name for keys in found.values() for name in keys or {}]
    for name in dict.fromkeys([*hand, *read_names]):
        known = {release: keys[name] for release, keys in found.items() if keys and name in keys}
        newest = list(known.values())[-1] if known else {}
        described = hand.get(name) or hand.get(newest.get("alias_of", ""))
        if described is None:
            problems.append(f"{path or 'top level'}: {name} is read (in {list(known)[-1]}) and not described")
            continue
        if is_read and not known and "hand" not in described:
            problems.append(f"{path or 'top level'}: {name} is described and not read in any release")
        lifetime = {}
        if known and every[0] not in known:
            lifetime["since"] = next(iter(known))
        if known and every[-1] not in known:
            lifetime["until"] = list(known)[-1]
        yield name, lifetime | _earlier_defaults(known) | newest | described


def _earlier_defaults(known: dict[str, Facts]) -> Facts:
    """The last release with each default that a later one changed."""
    changed: Facts = {}
    steps = [(release, facts["default"]) for release, facts in known.items() if "default" in facts]
    for (release, default), (_, following) in pairwise(steps):
        if default != following:
            changed[release] = default
    return {"earlier_defaults": changed} if changed else {}


def _finished(key: Facts, block: Facts, newest: Package) -> Facts:
    """A key as the table holds it: shorthands of the facts written out, empty fields left out."""
    facts = key | {"description": key["text"]}
    given = facts.get("type", [])
    facts["type"] = given.split("|") if isinstance(given, str) else given
    if "enum_of" in facts:
        module, _, name = facts["enum_of"].partition(":")
        values = newest.constants(module).get(name, {}).values()
        facts["enum"] = [word for value in values for word in (value if isinstance(value, list) else [value])]
    facts["enum"] = facts.get("enum", []) + facts.get("enum_also", [])
    if "any_case" in facts:
        facts["enum"] = [spelled for word in facts["enum"] for spelled in (word, word.upper())]
    facts["enum"] = list(dict.fromkeys(facts["enum"]))
    if "null" not in facts["type"] and facts["type"] and _takes_null(facts, block):
        facts["type"] = [*facts["type"], "null"]
    if len(_references(block)) == 1:
        facts.pop("source", None)  # the block's says as much
    return {name: facts[name] for name in FIELDS if name in facts and facts[name] not in ([], None, "")}


def _takes_null(key: Facts, block: Facts) -> bool:
    """Whether null does what leaving the key out does, though no source says so."""
    if "no_null" in key or "required" in key:
        return False
    is_plain = block["auto"] == "kept" and block["unknown"] == "ignored"
    is_off = key["type"] == ["boolean"] and key.get("default") is False  # nothing asks for more than "not true"
    return bool(block.get("null_is_unset")) or (is_plain and is_off)


def _variant(variant: Facts, name: str, package: Package, known: dict[str, Facts]) -> dict[str, Facts]:
    """The arguments that a type takes: default, or that it must be given."""
    takes: dict[str, Facts] = {argument: {} for argument in variant.get("also", [])}
    for constructor in variant["constructors"]:
        module, _, function = constructor.format(type=name).partition(":")
        for argument, facts in arguments(package, module, function).items():
            takes[argument] = facts | takes.get(argument, {})
    unwanted = {"optimizer", "params", "model_params", *variant.get("not", [])}
    missing = takes.keys() - known.keys() - unwanted
    if missing:
        msg = f"{variant['of']}: {name} takes {', '.join(sorted(missing))}, which is not described"
        raise Undescribed(msg)
    return {argument: facts for argument, facts in takes.items() if argument not in unwanted}
