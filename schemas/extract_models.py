"""Reads pydantic model classes and dataclasses: fields, JSON types, defaults, ranges, aliases, replacements."""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import Any

from extract_source import Package, Unknown

TYPES = {
    "bool": ["boolean"],
    "int": ["integer"],
    "float": ["number"],
    "str": ["string"],
    "Path": ["string"],
    "list": ["array"],
    "List": ["array"],
    "tuple": ["array"],
    "dict": ["object"],
    "Dict": ["object"],
    "object": [],
    "Any": [],
    "None": ["null"],
}
BOUNDS = {
    "ge": "minimum",
    "gt": "exclusive_minimum",
    "le": "maximum",
    "lt": "exclusive_maximum",
    "multiple_of": "multiple_of",
}
Facts = dict[str, Any]


def model_fields(package: Package, module: str, name: str) -> dict[str, Facts]:
    """The class's keys with their facts, base classes of the same module included; an aliased field comes twice."""
    node = package.scope(module, name)
    if not isinstance(node, ast.ClassDef):
        return {}
    keys: dict[str, Facts] = {}
    for base in node.bases:
        if isinstance(base, ast.Name):
            keys |= model_fields(package, module, base.id)
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            facts = _field(package, module, item)
            alias = facts.pop("alias", None)
            if alias:
                keys[alias] = facts
                facts = facts | {"alias_of": alias}
            keys[item.target.id] = facts
    return keys


def is_model(package: Package, module: str, name: str) -> bool:
    """Whether the name is a class whose body declares fields."""
    return bool(model_fields(package, module, name))


def _field(package: Package, module: str, item: ast.AnnAssign) -> Facts:
    names = package.constants(module)
    facts = _annotation(package, module, item.annotation)
    value = item.value
    if isinstance(value, ast.Call) and getattr(value.func, "id", "") in {"Field", "field"}:
        options = {keyword.arg: keyword.value for keyword in value.keywords}
        extra = options.get("json_schema_extra")
        if isinstance(extra, ast.Dict):
            options |= {
                key.value: item
                for key, item in zip(extra.keys, extra.values, strict=True)
                if isinstance(key, ast.Constant)
            }
        for option, field in BOUNDS.items() | {("alias", "alias")}:
            if option in options:
                facts[field] = package.value(options[option], names)
        if "deprecated" in options:
            replacement = package.value(options["new_param"], names) if "new_param" in options else ""
            facts["deprecated"] = replacement or "nothing"
        value = value.args[0] if value.args else options.get("default")
    if value is not None:
        with suppress(Unknown):
            facts["default"] = package.value(value, names)
    return facts


def _annotation(package: Package, module: str, node: ast.expr) -> Facts:  # noqa: C901, PLR0911 - one case a form
    match node:
        case ast.Constant(value=None):
            return {"type": ["null"]}
        case ast.Name(id=name) if name in TYPES:
            return {"type": TYPES[name]}
        case ast.Name(id=name):
            members = package.constants(module).get(name)
            if isinstance(members, dict) and members:  # an enumeration: a model's fields are annotated
                values = list(dict.fromkeys(members.values()))
                return {
                    "type": ["integer" if all(isinstance(value, int) for value in values) else "string"],
                    "enum": values,
                }
            return {"type": ["object"] if members is not None else []}
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            facts = _annotation(package, module, inner)
            return facts | {"type": [*facts["type"], "null"] if facts["type"] else []}
        case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=parts)):
            return _union([_annotation(package, module, part) for part in parts])
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union([_annotation(package, module, left), _annotation(package, module, right)])
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            values = package.value(inner if isinstance(inner, ast.Tuple) else ast.Tuple(elts=[inner]), {})
            return {"type": ["string"], "enum": values}
        case ast.Subscript(value=ast.Name(id="List" | "list"), slice=inner):
            items = _annotation(package, module, inner)["type"]
            return {"type": ["array"]} | ({"items": items[0]} if len(items) == 1 else {})
        case ast.Subscript(value=outer):
            return _annotation(package, module, outer)
    return {"type": []}


def _union(parts: list[Facts]) -> Facts:
    types = list(dict.fromkeys(name for part in parts for name in part["type"]))
    values = [value for part in parts for value in part.get("enum", [])]
    return {"type": types} | ({"enum": list(dict.fromkeys(values))} if values else {})
