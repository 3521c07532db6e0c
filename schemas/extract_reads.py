"""Finds the keys that functions read from plain dictionaries: get_...(dict, key, default), .get, [...] and "in"."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from extract_source import Package, Unknown

NO_DEFAULT = object()


def read_keys(package: Package, module: str, name: str, receivers: list[str]) -> dict[str, dict[str, Any]]:
    """The keys that the scope reads from the named dictionaries, with their defaults where the source states one.

    ``receivers`` are expressions like ``param_dict`` or ``param_dict['fp16']``; none means any dictionary.
    """
    scope = package.scope(module, name)
    names = package.constants(module) | (_bound(package, scope, package.constants(module)) if scope else {})
    keys: dict[str, dict[str, Any]] = {}
    for node in ast.walk(scope) if scope else []:
        for owner, key, default in _reads(node):
            if receivers and _spelled(package, owner, names) not in receivers:
                continue
            found = _value(package, key, names)
            value = _value(package, default, names) if default is not None else NO_DEFAULT
            for name_read in [found] if isinstance(found, str) else found.names if isinstance(found, _Any) else []:
                facts = keys.setdefault(name_read, {})
                if value is not NO_DEFAULT and not isinstance(value, dict):
                    facts["default"] = value
    return keys


def read_attributes(package: Package, module: str, name: str, owner: str) -> dict[str, dict[str, Any]]:
    """The attributes that the scope reads from a namespace such as ``args``."""
    scope = package.scope(module, name)
    return {
        node.attr: {}
        for node in (ast.walk(scope) if scope else [])
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == owner
    }


class _Any(NamedTuple):
    """The keys that a loop goes through."""

    names: list[str]


def _bound(package: Package, scope: ast.AST, names: dict[str, Any]) -> dict[str, Any]:
    """Names that loops and default arguments give a value."""
    bound: dict[str, Any] = {}
    for node in ast.walk(scope):
        match node:
            case (
                ast.comprehension(target=ast.Name(id=name), iter=values)
                | ast.For(target=ast.Name(id=name), iter=values)
            ):
                found = _value(package, values, names)
                if isinstance(found, list):
                    bound[name] = _Any(found)
            case ast.For(
                target=ast.Tuple(elts=[ast.Name(id=name), _]),
                iter=ast.Call(func=ast.Attribute(value=mapping, attr="items")),
            ):
                found = _value(package, mapping, names)
                if isinstance(found, dict):
                    bound[name] = _Any(list(found))
            case ast.arguments(args=arguments, defaults=defaults) if defaults:
                for argument, default in zip(arguments[-len(defaults) :], defaults, strict=True):
                    value = _value(package, default, names)
                    if value is not NO_DEFAULT:
                        bound[argument.arg] = value
    return bound


def _reads(node: ast.AST) -> list[tuple[ast.expr, ast.expr, ast.expr | None]]:
    """(dictionary, key, default) of the reads that a node is."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[owner, key, default]) if name.startswith("get_"):
            return [(owner, key, default)]
        case ast.Call(func=ast.Attribute(value=owner, attr="get" | "pop"), args=[key, *rest]):
            return [(owner, key, rest[0] if rest else None)]
        case ast.Subscript(value=owner, slice=key):
            return [(owner, key, None)]
        case ast.Compare(
            left=key, ops=[ast.In()], comparators=[ast.Call(func=ast.Attribute(value=owner, attr="keys"))]
        ):
            return [(owner, key, None)]
        case ast.Compare(left=key, ops=[ast.In()], comparators=[owner]):
            return [(owner, key, None)]
    return []


def _value(package: Package, node: ast.expr, names: dict[str, Any]) -> Any:
    try:
        return package.value(node, names)
    except (Unknown, TypeError):
        return NO_DEFAULT


def _spelled(package: Package, node: ast.expr, names: dict[str, Any]) -> str:
    """The dictionary's expression with constants written out: ``param_dict[FP16]`` is ``param_dict['fp16']``."""
    if isinstance(node, ast.Subscript):
        key = _value(package, node.slice, names)
        first = key.names[0] if isinstance(key, _Any) else key
        if isinstance(first, str):
            return f"{_spelled(package, node.value, names)}[{first!r}]"
    return ast.unparse(node)
