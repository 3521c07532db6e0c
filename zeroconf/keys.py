"""The key tables: every key of a DeepSpeed configuration and of an Accelerate YAML, by block.

``schemas/deepspeed_keys.json`` and ``schemas/accelerate_keys.json`` are written by ``schemas/update.py`` from the
libraries' own sources; the published JSON Schemas are written from them, and the linter's key rules walk them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from zeroconf.resources import data_path

Release = tuple[int, ...]
# offload's pin_memory: off before (zero/offload_config.py, deepspeedai/DeepSpeed#8207)
PINS_BY_DEFAULT_SINCE: Release = (0, 19, 5)
# tensor parallelism together with stage 3 (runtime/engine.py; deepspeedai/DeepSpeed#8167)
AUTOTP_AT_STAGE_3_SINCE: Release = (0, 19, 4)
Library = Literal["deepspeed", "accelerate"]


class Releases(NamedTuple):
    """Release numbers like ``(0, 19, 8)``; ``stated`` when the user or an environment named them."""

    deepspeed: Release
    accelerate: Release
    stated: bool = False


class Key(NamedTuple):
    """One key of a block. None means: not limited, not known, or not so.

    ``type`` holds the JSON Schema type names that the reader takes; ``read_at`` the ZeRO stages at which the engine
    reads it; ``auto`` who replaces "auto" ("trainer", "accelerate"); ``since`` and ``until`` the first and the last
    release that know it (None: older than the oldest, or still); ``block`` the block that an object holds.
    ``deprecated`` names the replacement ("nothing" when there is none), ``instead`` what does the job of a removed key
    in another form, ``dead`` says why it has no effect, ``refused`` why no value of it is taken. ``words`` are the only
    texts beside the other types; ``not_zero``: it divides, and may be negative or a fraction. ``any_case``: the reader
    compares a word with ``enum`` without case; ``otherwise`` is the choice that it takes for any other word.
    ``earlier_defaults`` maps the last release that had another default to that default.
    """

    name: str
    type: tuple[str, ...] = ()
    default: Any = None
    minimum: float | None = None
    exclusive_minimum: float | None = None
    maximum: float | None = None
    exclusive_maximum: float | None = None
    multiple_of: float | None = None
    enum: tuple[Any, ...] | None = None
    words: tuple[str, ...] | None = None
    not_zero: bool = False
    any_case: bool = False
    otherwise: str | None = None
    items: str | None = None
    block: str | None = None
    read_at: tuple[int, ...] | None = None
    auto: tuple[str, ...] = ()
    required: bool = False
    since: Release | None = None
    until: Release | None = None
    alias_of: str | None = None
    deprecated: str | None = None
    instead: str | None = None
    dead: str | None = None
    refused: str | None = None
    earlier_defaults: dict[str, Any] | None = None
    description: str = ""
    source: str = ""


class Block(NamedTuple):
    """A block's keys, and what its reader does with others: "rejected", "ignored", or "open" (taken as they are).

    ``auto`` says what a leftover "auto" becomes: "dropped" (the default applies) or "kept" (a string).
    """

    path: str
    unknown: Literal["rejected", "ignored", "open"]
    auto: Literal["dropped", "kept"]
    keys: dict[str, Key]
    strict_since: Release | None = None
    description: str = ""
    source: str = ""


class KeyTable(NamedTuple):
    """All blocks of one library by dotted path ("" is the top level), and the releases that were read.

    ``elsewhere`` holds top-level keys that other programs read from the same file, with the program. ``variants``
    holds, by block and by the "type" beside it, which of the block's keys that type takes: ``{"required": True}``
    for one that must be given, else its default, if it has one.
    """

    releases: tuple[Release, ...]
    blocks: Mapping[str, Block]
    elsewhere: dict[str, str]
    variants: dict[str, dict[str, dict[str, dict[str, Any]]]]

    def key(self, *path: str) -> Key | None:
        """The key at a path like ``("zero_optimization", "stage")``; None when the table has none."""
        block = self.blocks.get("")
        for step in path[:-1]:
            holder = block.keys.get(step) if block else None
            block = self.blocks.get(holder.block) if holder and holder.block is not None else None
        return block.keys.get(path[-1]) if block else None

    def places(self, name: str) -> list[str]:
        """The dotted paths of the blocks that have a key of this name."""
        return [path for path, block in self.blocks.items() if name in block.keys]


class _Blocks(Mapping[str, Block]):
    """Blocks that are built when they are asked for: a file uses few of them."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content
        self._built: dict[str, Block] = {}

    def __getitem__(self, path: str) -> Block:
        if path not in self._built:
            self._built[path] = _block(path, self._content[path])
        return self._built[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)


@lru_cache(maxsize=2)
def key_table(library: Library) -> KeyTable:
    """The shipped table of a library."""
    content = json.loads(data_path(f"schemas/{library}_keys.json").read_bytes())
    releases = tuple(map(_release, content["releases"]))
    return KeyTable(releases, _Blocks(content["blocks"]), content["elsewhere"], content["variants"])


def newest_releases() -> Releases:
    """The newest releases that the tables know."""
    return Releases(key_table("deepspeed").releases[-1], key_table("accelerate").releases[-1])


def last_until(release: Release) -> Release:
    """The DeepSpeed release itself, or the last one before it where there is none of its number.

    The table has every release of a minor version of which it has the first; of the older ones it has the last only.
    """
    known = key_table("deepspeed").releases
    if release in known or release > known[-1] or (*release[:2], 0) not in known:
        return release
    return max(one for one in known if one < release)


def _release(text: str) -> Release:
    return tuple(int(part) for part in text.split("."))


def _block(path: str, content: dict[str, Any]) -> Block:
    strict_since = content.get("strict_since")
    return Block(
        path=path,
        unknown=content["unknown"],
        auto=content["auto"],
        keys={name: _key(name, facts) for name, facts in content["keys"].items()},
        strict_since=_release(strict_since) if strict_since else None,
        description=content.get("description", ""),
        source=content.get("source", ""),
    )


def _key(name: str, facts: dict[str, Any]) -> Key:
    for field in ("since", "until"):
        if field in facts:
            facts[field] = _release(facts[field])
    for field in ("type", "enum", "words", "read_at", "auto"):
        if field in facts:
            facts[field] = tuple(facts[field])
    return Key(name, **facts)
