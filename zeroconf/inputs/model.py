"""``--model``: a catalogue name, a Hugging Face id, a ``config.json``, or a bare size."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from zeroconf.errors import InputError
from zeroconf.inputs import catalogue
from zeroconf.inputs.architectures import spec_from_config
from zeroconf.inputs.bare_size import read_bare_size
from zeroconf.inputs.config_json import read_config
from zeroconf.inputs.lora import with_lora
from zeroconf.inputs.text import clean, did_you_mean, is_file, is_folder, shown, shown_path

if TYPE_CHECKING:
    from zeroconf.types import ModelSpec

__all__ = ["model_path", "model_source", "read_model", "with_lora"]

_BARE_SIZE = re.compile(r"\d[\d_.]{0,20}\s*[kKmMbBtT]?")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


def _read_path(path: Path) -> ModelSpec:
    file = path / "config.json" if is_folder(path) else path
    if file != path and not is_file(file):
        msg = f"{shown_path(path)}: there is no config.json in this folder"
        raise InputError(msg)
    folder = file.absolute().parent.name
    name = folder if file.name == "config.json" and folder else file.stem
    return spec_from_config(read_config(file), name, f"configuration {shown_path(file)}")


def _from_hub(identifier: str) -> ModelSpec | None:
    """The model of a hub id; None without ``huggingface_hub``, a network, or such a repository."""
    from zeroconf.inputs.hub import download_config  # noqa: PLC0415  (a network client, for unknown ids only)

    file = download_config(identifier)
    if file is None:
        return None
    return spec_from_config(read_config(file), identifier.rsplit("/", 1)[-1], f"the hub's config.json of {identifier}")


def model_path(text: str) -> Path | None:
    """The configuration file or its folder that ``--model`` means; None for a name, an id or a size.

    A folder of a catalogue name counts only when it holds a ``config.json``.
    """
    path = Path(text).expanduser() if text.startswith("~/") else Path(text)
    if text.endswith(".json") or text.startswith((".", "/", "~")) or is_file(path / "config.json"):
        return path
    known = _BARE_SIZE.fullmatch(text) or catalogue.find(text)
    return path if not known and (is_folder(path) or is_file(path)) else None


def model_source(text: str) -> Path | dict[str, object] | None:
    """What Transformers builds the model of ``--model`` from: a configuration's file or folder, or its values.

    None for what is only a shape, like a bare size.
    """
    path = model_path(text)
    entry = None if path is not None or _BARE_SIZE.fullmatch(text) else catalogue.find(text)
    return dict(entry["config"]) if entry else path


def read_model(text: str) -> ModelSpec:
    """The model that ``--model`` means.

    Raises:
        InputError: nothing of that name, an unreadable or unknown configuration, an absurd size.
    """
    text = clean(text, "model")
    path = model_path(text)
    if path is not None:
        return _read_path(path)
    if _BARE_SIZE.fullmatch(text):
        return read_bare_size(text)
    entry = catalogue.find(text)
    if entry is not None:
        return catalogue.spec(entry, text)
    if _HUB_ID.fullmatch(text) and (model := _from_hub(text)) is not None:
        return model
    near = did_you_mean(text.rsplit("/", 1)[-1], catalogue.names())
    cure = "a path of its config.json or a bare size like 7B works too"
    msg = f"model '{shown(text)}' is not in the catalogue{near}; {cure}"
    raise InputError(msg)
