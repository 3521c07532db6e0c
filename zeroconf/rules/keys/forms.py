"""What a block looks like, for files that give one word instead of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zeroconf.keys import key_table
from zeroconf.rules.keys.walk import is_known

if TYPE_CHECKING:
    from zeroconf.keys import Key, Release
    from zeroconf.rules.keys.walk import Seen


def form(seen: Seen, release: Release) -> str:
    """What to write under a key that holds a block, in words that follow "an object"; empty when nothing is sure."""
    meant = meant_block(seen, release)
    if meant:
        return f" like {json.dumps(meant)}"
    keys = _keys(seen, release)
    if "device" in keys:
        return ' like {"device": "cpu"}'
    return ' like {"type": ..., "params": {...}}' if {"type", "params"} <= keys.keys() else ""


def meant_block(seen: Seen, release: Release) -> dict[str, Any] | None:
    """The block that a boolean (whether it is enabled) or a word (its device) was meant to be."""
    value, keys = seen.member.node.value, _keys(seen, release)
    if isinstance(value, bool) and "enabled" in keys:
        return {"enabled": value}
    if isinstance(value, str) and "device" in keys and value in (keys["device"].enum or ()):
        return {"device": value}
    return None


def _keys(seen: Seen, release: Release) -> dict[str, Key]:
    """The keys of the block that the member should hold."""
    if seen.key.block is None:
        return {}
    keys = key_table("deepspeed").blocks[seen.key.block].keys
    return {name: key for name, key in keys.items() if is_known(key, release)}
