"""A DeepSpeed configuration walked beside the key table: every member with what the table knows of it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.keys import Block, Key, key_table
from zeroconf.rules.facts import AUTO, DsConfig

if TYPE_CHECKING:
    from zeroconf.document.node import Member, Node, Path
    from zeroconf.keys import Release


class Seen(NamedTuple):
    """One member of a block; ``path`` leads to it from the document's root.

    ``key`` is the table's; of a key that the table has not, only the name is known. ``holder`` is the mapping that
    the member stands in.
    """

    block: Block
    path: Path
    holder: Node
    member: Member
    key: Key

    @property
    def name(self) -> str:
        """The key as the file spells it."""
        return self.member.key

    @property
    def is_auto(self) -> bool:
        """Whether the value is the word "auto"."""
        return bool(self.member.node.value == AUTO)

    @property
    def shown(self) -> str:
        """The key with its block, for messages."""
        return dotted(self.block.path, self.name)


def dotted(block: str, name: str) -> str:
    """A key's dotted path from the configuration's top level."""
    return f"{block}.{name}" if block else name


def at(block: str) -> str:
    """The place that a block is, for messages."""
    return f"in {block}" if block else "at the top level"


def is_removed(key: Key, release: Release) -> bool:
    """Whether the release is as late as the first one read that no longer knows the key."""
    if key.until is None:
        return False
    return any(key.until < read <= release for read in key_table("deepspeed").releases)


def is_too_new(key: Key, release: Release) -> bool:
    """Whether the release is as early as the last one read that does not know the key yet."""
    if key.since is None:
        return False
    return any(release <= read < key.since for read in key_table("deepspeed").releases)


def is_known(key: Key | None, release: Release) -> bool:
    """Whether the release knows the key."""
    return key is not None and not is_removed(key, release) and not is_too_new(key, release)


def is_strict(block: Block, release: Release) -> bool:
    """Whether the release refuses keys of the block that it does not know."""
    return block.unknown == "rejected" and (block.strict_since is None or release >= block.strict_since)


class Walked(NamedTuple):
    """The members of a configuration by what the release checked against makes of their keys."""

    known: tuple[Seen, ...]
    unknown: tuple[Seen, ...]
    removed: tuple[Seen, ...]
    too_new: tuple[Seen, ...]


@lru_cache(maxsize=1)  # the rules ask for one file after the other
def walk(config: DsConfig, release: Release) -> Walked:
    """Every member that the release's reader sees, block by block in the order of the text.

    Of a key that stands twice it is the last. Below a key that the release does not know nothing is read.
    """
    blocks = key_table("deepspeed").blocks
    walked: dict[str, list[Seen]] = {kind: [] for kind in Walked._fields}
    pending = [(blocks[""], config.prefix, config.root)]
    while pending:
        block, path, holder = pending.pop()
        for name, member in {member.key: member for member in holder.members}.items():
            key = block.keys.get(name)
            seen = Seen(block, (*path, name), holder, member, key or Key(name))
            walked[_kind(key, release)].append(seen)
            is_read = key is not None and key.block is not None and is_known(key, release) and not _is_outranked(seen)
            if is_read and member.node.kind == "mapping":
                pending.append((blocks[seen.key.block or ""], seen.path, member.node))
    return Walked(**{kind: tuple(members) for kind, members in walked.items()})


def _kind(key: Key | None, release: Release) -> str:
    if key is None:
        return "unknown"
    return "removed" if is_removed(key, release) else "too_new" if is_too_new(key, release) else "known"


def _is_outranked(seen: Seen) -> bool:
    """Whether the block's other spelling is read instead of it (runtime/precision_config.py, get_bfloat16_config)."""
    if seen.block.path or seen.name != "bfloat16":
        return False
    new = seen.holder.child("bf16")
    return new is not None and new.value is not None
