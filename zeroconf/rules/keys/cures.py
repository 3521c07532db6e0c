"""Fixes that several key rules offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroconf.document import edits
from zeroconf.keys import key_table
from zeroconf.rules.keys.fits import fits

if TYPE_CHECKING:
    from zeroconf.document.edits import Edit, Fix
    from zeroconf.document.node import Path
    from zeroconf.keys import Release
    from zeroconf.rules.facts import DsConfig
    from zeroconf.rules.keys.walk import Seen


def cure(title: str, made: tuple[Edit, ...], *, safe: bool = True, makes: Path | None = None) -> Fix | None:
    """A fix; None where the text leaves no way to make it. ``makes`` is the key that comes out of another one."""
    return edits.Fix(title, made, safe, makes) if made else None


def removed(config: DsConfig, seen: Seen, *, safe: bool = False) -> Fix | None:
    """The member goes."""
    return cure(f"Remove {seen.name}", edits.remove(config.document, seen.path), safe=safe)


def replaced(config: DsConfig, seen: Seen, value: Any, shown: str, *, safe: bool = True) -> Fix | None:
    """The member gets another value."""
    return cure(f"Write {shown}", edits.replace(config.document, seen.path, value), safe=safe)


def renamed(config: DsConfig, seen: Seen, name: str | None, release: Release) -> Fix | None:
    """The member gets the name of a key beside it that is not there yet; safe when its value fits that key."""
    if name is None or seen.holder.child(name) is not None:
        return None
    safe = fits(seen.block, seen.block.keys[name], seen.member.node, release)
    makes = (*seen.path[:-1], name)
    return cure(f"Rename to {name}", edits.rename(config.document, seen.path, name), safe=safe, makes=makes)


def moved(config: DsConfig, seen: Seen, place: str, release: Release) -> Fix | None:
    """The member moves to a dotted path that is free; safe when its value fits the key there."""
    to, target = tuple(place.split(".")), config.path(*place.split("."))
    block, key = key_table("deepspeed").blocks[".".join(to[:-1])], key_table("deepspeed").key(*to)
    safe = key is not None and fits(block, key, seen.member.node, release)
    return cure(f"Move to {place}", edits.move(config.document, seen.path, target), safe=safe, makes=target)
