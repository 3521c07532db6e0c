"""The scalars of a configuration whose keys the table knows, with their key and its block."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zeroconf.keys import key_table
from zeroconf.rules.idle import is_set_over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.node import Node, Path
    from zeroconf.keys import Block, Key, KeyTable
    from zeroconf.rules.facts import DsConfig, Reader, View


class Known(NamedTuple):
    """One scalar: its path from the document's root, its node, and what the table says of it."""

    path: Path
    node: Node
    key: Key
    block: Block

    @property
    def is_checked(self) -> bool:
        """Whether a pydantic model reads the block: it turns text into numbers and booleans where it can."""
        return self.block.unknown == "rejected"


def known_scalars(view: View, table: KeyTable) -> Iterator[Known]:
    """Every scalar under a key of the table, in the order of the text, a block's own ones first."""
    pending = [(view.prefix, view.root, table.blocks[""])]
    while pending:
        path, node, block = pending.pop()
        for member in node.members:
            key = block.keys.get(member.key)
            if key is None or node.member(member.key) is not member:
                continue
            here = (*path, member.key)
            if member.node.kind == "scalar":
                yield Known(here, member.node, key, block)
            elif key.block is not None and key.block in table.blocks:
                pending.append((here, member.node, table.blocks[key.block]))


def read_scalars(config: DsConfig, reader: Reader) -> Iterator[Known]:
    """Those that DeepSpeed sees as they are written."""
    for known in known_scalars(config, key_table("deepspeed")):
        if not is_set_over(config, reader, known.path):
            yield known


def block_at(table: KeyTable, path: Path) -> Block | None:
    """The block that a path leads to."""
    block: Block | None = table.blocks[""]
    for step in path:
        key = block.keys.get(step) if block and isinstance(step, str) else None
        block = table.blocks.get(key.block) if key and key.block is not None else None
    return block
