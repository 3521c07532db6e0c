"""Reads a package's sources by ``ast``, without importing them: modules, their constants, classes and functions."""

from __future__ import annotations

import ast
import operator
import sys
from pathlib import Path, PurePosixPath
from typing import Any

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.BitOr: operator.or_,
}
DECLARING = ("config", "constants", "dataclasses", "utils")  # modules whose names are worth following
Scope = ast.Module | ast.ClassDef | ast.FunctionDef


class Unknown(Exception):  # noqa: N818 - it is an answer, not an error
    """An expression whose value needs the program to run."""


class Package:
    """The sources below a package's folder; module paths are relative to it, like ``runtime/config.py``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._trees: dict[str, ast.Module | None] = {}
        self._constants: dict[str, dict[str, Any]] = {}

    def tree(self, module: str) -> ast.Module | None:
        """The parsed module; None when this release has none."""
        if module not in self._trees:
            path = self.folder / module
            self._trees[module] = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else None
        return self._trees[module]

    def scope(self, module: str, name: str) -> Scope | None:
        """The module itself for "*", else its function or class; a dotted name is a method."""
        node: Scope | None = self.tree(module)
        for step in [] if name == "*" else name.split("."):
            node = next((item for item in node.body if getattr(item, "name", None) == step), None) if node else None  # type: ignore[misc]
        return node

    def constants(self, module: str) -> dict[str, Any]:
        """The module's names whose values can be read off: constants, classes of constants, and what it imports."""
        if module not in self._constants:
            names = self._constants[module] = {}
            tree = self.tree(module)
            for statement in tree.body if tree else []:
                self._learn(statement, module, names)
        return self._constants[module]

    def value(self, expression: ast.expr, names: dict[str, Any]) -> Any:  # noqa: C901, PLR0911 - one case a form
        """The value of an expression over known names; raises `Unknown`."""
        match expression:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Attribute(value=ast.Name(id="sys"), attr="maxsize"):
                return sys.maxsize
            case ast.Attribute(value=ast.Name(id="torch"), attr=attr):
                return f"torch.{attr}"
            case ast.Attribute(value=owner, attr="value"):
                return self.value(owner, names)
            case ast.Attribute(value=ast.Name(id=owner), attr=attr) if isinstance(names.get(owner), dict):
                return names[owner][attr] if attr in names[owner] else _unknown()
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value(operand, names)
            case ast.BinOp(left=left, op=kind, right=right) if type(kind) in OPERATORS:
                return OPERATORS[type(kind)](self.value(left, names), self.value(right, names))
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.value(item, names) for item in items]
            case ast.Dict(keys=keys, values=values):
                return {
                    self.value(key or _unknown(), names): self.value(item, names)
                    for key, item in zip(keys, values, strict=True)
                }
            case ast.Call(func=ast.Name(id="pp_int" | "int"), args=[number, *_]):
                return int(self.value(number, names))
        return _unknown()

    def _learn(self, statement: ast.stmt, module: str, names: dict[str, Any]) -> None:
        match statement:
            case ast.ImportFrom():
                self._learn_import(statement, module, names)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                try:
                    names[name] = self.value(value, names)
                except (Unknown, TypeError):
                    names.pop(name, None)
            case ast.ClassDef(name=name):
                members: dict[str, Any] = {}
                for item in statement.body:
                    if isinstance(item, ast.Assign):
                        self._learn(item, module, members)
                names[name] = members
            case ast.If():
                for item in [*statement.body, *statement.orelse]:
                    self._learn(item, module, names)

    def _learn_import(self, statement: ast.ImportFrom, module: str, names: dict[str, Any]) -> None:
        target = self._imported(statement, module)
        known = self.constants(target) if target else {}
        for alias in statement.names:
            if alias.name == "*":
                names.update(known)
            elif alias.name in known:
                names[alias.asname or alias.name] = known[alias.name]

    def _imported(self, statement: ast.ImportFrom, module: str) -> str | None:
        dotted = (statement.module or "").split(".") if statement.module else []
        if statement.level:
            base = PurePosixPath(module).parents[statement.level - 1]
        elif dotted and dotted[0] == self.folder.name:
            base, dotted = PurePosixPath(), dotted[1:]
        else:
            return None
        path = base.joinpath(*dotted)
        if not any(word in path.name for word in DECLARING):
            return None
        for candidate in (f"{path}.py", f"{path}/__init__.py"):
            if (self.folder / candidate).is_file():
                return candidate
        return None


def _unknown() -> Any:
    raise Unknown
