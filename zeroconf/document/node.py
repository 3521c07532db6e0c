"""Values with the places that they stand at, whatever syntax they were read from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str | int, ...]
"""Keys and indexes from the root, as in ``("zero_optimization", "stage")``."""


@dataclass(slots=True, eq=False)
class Member:
    """One ``key: value`` of a mapping; the key's place includes its quotes."""

    key: str
    start: int
    end: int
    node: Node


@dataclass(slots=True, eq=False)
class Node:
    """A value and its place: ``text[start:end]``, in code points.

    ``value`` is a scalar for "scalar", the nodes for "sequence", every member in order (duplicates too) for
    "mapping".
    """

    kind: Literal["scalar", "sequence", "mapping"]
    value: Any
    start: int
    end: int
    _named: dict[str, list[Member]] | None = field(default=None, init=False, repr=False)

    @property
    def members(self) -> list[Member]:
        """The members of a mapping, duplicates too; empty for anything else."""
        return self.value if self.kind == "mapping" else []

    @property
    def items(self) -> list[Node]:
        """The nodes of a sequence; empty for anything else."""
        return self.value if self.kind == "sequence" else []

    def named(self, key: str) -> list[Member]:
        """The members under the key, in order: more than one where it stands twice. The mapping must be complete."""
        if self._named is None:
            self._named = {}
            for member in self.members:
                self._named.setdefault(member.key, []).append(member)
        return self._named.get(key, [])

    def member(self, key: str) -> Member | None:
        """The member that a reader sees under the key: the last one."""
        found = self.named(key)
        return found[-1] if found else None

    def child(self, step: str | int) -> Node | None:
        """The node one step down; None when there is none."""
        if isinstance(step, int):
            return self.items[step] if 0 <= step < len(self.items) else None
        member = self.member(step)
        return member.node if member else None

    def at(self, path: Path) -> Node | None:
        """The node at the path; None when there is none."""
        node: Node | None = self
        for step in path:
            node = node.child(step) if node else None
        return node

    def walk(self, path: Path = ()) -> Iterator[tuple[Path, Member | None, Node]]:
        """Every node with its path and the member that holds it, in the order of the text."""
        pending: list[tuple[Path, Member | None, Node]] = [(path, None, self)]
        while pending:
            here, holder, node = pending.pop()
            yield here, holder, node
            below: list[tuple[Path, Member | None, Node]]
            below = [((*here, member.key), member, member.node) for member in node.members]
            below += [((*here, index), None, item) for index, item in enumerate(node.items)]
            pending += reversed(below)

    def plain(self) -> Any:
        """The value as Python's json would give it: dicts (last duplicate wins), lists and scalars."""
        if self.kind == "scalar":
            return self.value
        done: Any = {} if self.kind == "mapping" else []
        # without recursion: a file may nest as deep as its reader lets it
        pending: list[tuple[Node, Any]] = [(self, done)]
        while pending:
            node, filled = pending.pop()
            below: list[tuple[Any, Node]]
            if node.kind == "mapping":
                below = [(member.key, member.node) for member in node.members]
            else:
                below = list(enumerate(node.items))
                filled += [None] * len(below)
            for key, child in below:
                if child.kind == "scalar":
                    filled[key] = child.value
                else:
                    filled[key] = {} if child.kind == "mapping" else []
                    pending.append((child, filled[key]))
        return done
