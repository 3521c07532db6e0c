"""Finds what functions take: keys read from plain dictionaries, attributes read from a namespace, arguments.

A read is ``get_...(dict, key, default)``, ``.get``, ``[...]`` or ``in``.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from extract_source import Package, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_DEFAULT = object()


class Read(NamedTuple):
    """A key read from a dictionary: its expression, and the default if the source states one."""

    receiver: str
    key: str
    facts: dict[str, Any]


def read_keys(package: Package, module: str, name: str, receivers: list[str]) -> dict[str, dict[str, Any]]:
    """The keys that the scope reads from the named dictionaries, with their defaults where the source states one.

    ``receivers`` are expressions like ``param_dict`` or ``param_dict['fp16']``; none means any dictionary.
    """
    keys: dict[str, dict[str, Any]] = {}
    for read in _all_reads(package, module, name):
        if not receivers or read.receiver in receivers:
            keys[read.key] = read.facts | keys.get(read.key, {})
    return keys


@cache  # several blocks are read in one module
def _all_reads(package: Package, module: str, name: str) -> list[Read]:
    scope = package.scope(module, name)
    names = package.constants(module) | (_bound(package, scope, package.constants(module)) if scope else {})
    reads: list[Read] = []
    for function, node in _nodes(scope) if scope else []:
        for owner, key, default in _reads(node):
            found = _value(package, key, names)
            value = _value(package, default, names) if default is not None else NO_DEFAULT
            facts = {} if value is NO_DEFAULT or isinstance(value, dict) else {"default": value}
            facts["source"] = f"{module}:{function or name}"
            spelled = found.names if isinstance(found, _Any) else [found] if isinstance(found, str) else []
            reads += [Read(_spelled(package, owner, names), word, facts) for word in spelled]
    return reads


def _nodes(scope: ast.AST, function: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every node below the scope, with the function or class around it."""
    for node in ast.iter_child_nodes(scope):
        around = node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) and not function else function
        yield around, node
        yield from _nodes(node, around)


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


def arguments(package: Package, module: str, name: str) -> dict[str, dict[str, Any]]:
    """The arguments of a function after the first: each with its default, or that it must be given."""
    function = package.scope(module, name)
    if not isinstance(function, ast.FunctionDef):
        return {}
    names = package.constants(module)
    given = function.args.args[1:]
    missing: list[ast.expr | None] = [None] * (len(given) - len(function.args.defaults))
    found: dict[str, dict[str, Any]] = {}
    for argument, default in zip(given, [*missing, *function.args.defaults], strict=True):
        value = _value(package, default, names) if default is not None else NO_DEFAULT
        found[argument.arg] = (
            {"required": True} if default is None else {} if value in (NO_DEFAULT, None) else {"default": value}
        )
    return found
