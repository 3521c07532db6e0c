"""The ds_config.json that another file names, as rules about both see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zeroconf.rules.facts import DsConfig


class Named(NamedTuple):
    """``path`` as the other file writes it; ``errors`` are the linter's about the file itself."""

    path: str
    config: DsConfig
    errors: tuple[str, ...] = ()
