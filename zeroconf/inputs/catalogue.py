"""The shipped catalogue of models: names read leniently, shapes derived as from any ``config.json``."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from zeroconf.inputs.architectures import spec_from_config
from zeroconf.inputs.config_json import Config
from zeroconf.inputs.tables import DATA

if TYPE_CHECKING:
    from zeroconf.types import ModelSpec


# words that name a fine-tuned or converted copy of the same shape
_SAME_SHAPE = {"hf", "instruct", "chat", "it", "pt", "meta"}
_BASE = {"base"}


@cache
def entries() -> tuple[dict[str, Any], ...]:
    """The table ``data/models.json``."""
    return tuple(json.loads((DATA / "models.json").read_text(encoding="utf-8")))


def _key(name: str, dropped: set[str]) -> str:
    """``meta-llama/Meta-Llama-3-8B_Instruct`` to ``llama38b``: lower case, no owner, no separators."""
    words = re.split(r"[-_\s]+", name.lower().rsplit("/", 1)[-1])
    return "".join(word for word in words if word not in dropped)


@cache
def _by_key() -> dict[str, dict[str, Any]]:
    keys: dict[str, dict[str, Any]] = {}
    for entry in entries():
        for name in (entry["name"], entry["id"], *entry["aliases"]):
            keys.setdefault(_key(name, _SAME_SHAPE), entry)
    return keys


def names() -> list[str]:
    """Every name of the catalogue."""
    return [entry["name"] for entry in entries()]


def find(name: str) -> dict[str, Any] | None:
    """The entry of a catalogue name or Hugging Face id, or None."""
    keys = _by_key()
    return keys.get(_key(name, _SAME_SHAPE)) or keys.get(_key(name, _SAME_SHAPE | _BASE))


def spec(entry: dict[str, Any], asked: str) -> ModelSpec:
    """An entry's shape; when another owner's copy was asked for, that is said."""
    config = Config(dict(entry["config"]), f"catalogue entry {entry['name']}")
    model = spec_from_config(config, entry["name"], f"catalogue: {entry['source']} ({entry['confidence']})")
    owner, _, name = asked.rpartition("/")
    if not name or owner.lower() in {"", entry["id"].rpartition("/")[0].lower()}:
        return model
    return replace(model, assumptions=(*model.assumptions, f"'{asked}' is taken to have the shape of {entry['id']}"))
