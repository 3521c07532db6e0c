"""The shipped catalogue of models: names read leniently, shapes derived as from any ``config.json``."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from zeroconf.errors import InputError
from zeroconf.inputs.architectures import spec_from_config
from zeroconf.inputs.architectures.vision import tower_note
from zeroconf.inputs.config_json import Config
from zeroconf.inputs.tables import DATA
from zeroconf.inputs.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.types import ModelSpec


# words that name a fine-tuned or converted copy of the same shape
_SAME_SHAPE = {"hf", "instruct", "chat", "it", "pt", "meta"}
_BASE = {"base"}
_SHOWN_CANDIDATES = 8
_SIZE = re.compile(r"\d+(\.\d+)?[bm]")


@cache
def entries() -> tuple[dict[str, Any], ...]:
    """The table ``data/models.json``."""
    return tuple(json.loads((DATA / "models.json").read_text(encoding="utf-8")))


def _words(name: str) -> list[str]:
    """``meta-llama/Meta-Llama-3-8B_Instruct`` to ``meta, llama, 3, 8b, instruct``: lower case, no owner."""
    return [word for word in re.split(r"[-_\s]+", name.lower().rsplit("/", 1)[-1]) if word]


def _key(name: str, dropped: set[str]) -> str:
    """``meta-llama/Meta-Llama-3-8B_Instruct`` to ``llama38b``: no separators either."""
    return "".join(word for word in _words(name) if word not in dropped)


def _spellings(entry: dict[str, Any]) -> tuple[str, ...]:
    return (entry["name"], entry["id"], *entry["aliases"])


@cache
def _by_key() -> dict[str, dict[str, Any]]:
    return {_key(name, _SAME_SHAPE): entry for entry in entries() for name in _spellings(entry)}


def names() -> list[str]:
    """Every name of the catalogue."""
    return [entry["name"] for entry in entries()]


def find(name: str) -> dict[str, Any] | None:
    """The entry of a catalogue name or Hugging Face id, or None."""
    keys = _by_key()
    return keys.get(_key(name, _SAME_SHAPE)) or keys.get(_key(name, _SAME_SHAPE | _BASE))


def find_part(name: str) -> dict[str, Any] | None:
    """The only entry with all words of a shortened name, like ``neox-20b``; None when there is none.

    Raises:
        InputError: several entries have them.
    """
    asked = set(_words(name)) - _SAME_SHAPE
    found = [entry for entry in entries() if any(asked <= set(_words(spelling)) for spelling in _spellings(entry))]
    if "/" in name or not asked or not found:
        return None
    if len(found) == 1:
        return found[0]
    listed = ", ".join(entry["name"] for entry in found[:_SHOWN_CANDIDATES])
    more = f" and {len(found) - _SHOWN_CANDIDATES} more" if len(found) > _SHOWN_CANDIDATES else ""
    msg = f"model '{shown(name)}' is ambiguous; write one of {listed}{more}"
    if all(_SIZE.fullmatch(word) for word in asked):
        size = min(asked).upper()
        msg = (
            f"model '{shown(name)}' is only a size; write {size} for any decoder of that size, or one of {listed}{more}"
        )
    raise InputError(msg)


def _notes(entry: dict[str, Any], asked: str) -> Iterator[str]:
    """What the user has to know: whose shape was taken, and whether somebody has read it."""
    owner, _, name = asked.rpartition("/")
    if name and owner.lower() not in {"", entry["id"].rpartition("/")[0].lower()}:
        yield f"'{asked}' is taken to have the shape of {entry['id']}"
    elif find(asked) is None:
        yield f"'{asked}' is read as {entry['name']}, the only model with these words"
    if "vision_config" in entry:
        yield tower_note(Config(entry["vision_config"], f"catalogue entry {entry['name']}"), "")
    if entry["confidence"] != "verified":
        yield f"the shape of {entry['name']} is {entry['confidence']}, not read from a published file"


def spec(entry: dict[str, Any], asked: str) -> ModelSpec:
    """An entry's shape; when another owner's copy was asked for, or nobody has read the figures, that is said."""
    config = Config(dict(entry["config"]), f"catalogue entry {entry['name']}")
    model = spec_from_config(config, entry["name"], f"catalogue: {entry['source']} ({entry['confidence']})")
    notes = (*model.assumptions, *_notes(entry, asked))
    return replace(model, has_text_config="vision_config" in entry, assumptions=notes)
