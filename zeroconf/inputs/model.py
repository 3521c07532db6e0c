"""``--model``: a catalogue name, a Hugging Face id, a ``config.json``, or a bare size."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeroconf.errors import InputError, UnavailableError
from zeroconf.inputs import catalogue
from zeroconf.inputs.architectures import FAMILIES, family_of, language_part, spec_from_config
from zeroconf.inputs.bare_size import read_bare_size
from zeroconf.inputs.config_json import read_config
from zeroconf.inputs.lora import with_lora
from zeroconf.inputs.text import as_path, clean, did_you_mean, is_file, is_folder, shown, shown_path
from zeroconf.inputs.unknown import spec_of_unknown
from zeroconf.types import ModelSpec
from zeroconf.units import count, parse_count

if TYPE_CHECKING:
    from pathlib import Path

    from zeroconf.inputs.config_json import Config

__all__ = ["TINY", "model_path", "model_source", "read_model", "with_lora"]

_ROUNDED = 0.05  # llama-2-7b has 6.74B
_BARE_SIZE = re.compile(r"\d[\d_.]{0,20}\s*[kKmMbBtT]?")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
# the smallest Llama that still shows every part: for trying a launcher, not a job
TINY: Final = ModelSpec(
    name="tiny",
    architecture="llama",
    num_parameters=1_066_112,
    num_active_parameters=1_066_112,
    num_layers=4,
    hidden_size=128,
    intermediate_size=352,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=32,
    vocab_size=1024,
    tied_embeddings=False,
    max_sequence_length=4096,
    source="zeroconf's own test shape",
)


def _from_config(config: Config, name: str, source: str, params: str | None) -> ModelSpec:
    """A configuration's model; ``params`` stands in for a count that the architecture does not give."""
    part, notes = language_part(config)
    family = family_of(part)
    if params is None or family in FAMILIES:
        return _counted(spec_from_config(config, name, source), params)
    model = spec_of_unknown(part, family, params, name=name, source=source)
    return replace(model, assumptions=(*notes, *model.assumptions))


def _counted(model: ModelSpec, params: str | None) -> ModelSpec:
    """The model, whose size is known; a rounded ``--params`` may say the same.

    Raises:
        InputError: it says another.
    """
    if params is None or abs(parse_count(params, "--params") / model.num_parameters - 1) <= _ROUNDED:
        return model
    msg = f"--params {shown(params)} has no effect here: {model.name} is counted, {count(model.num_parameters)}"
    msg += " parameters; leave it out"
    raise InputError(msg)


def _read_path(path: Path, params: str | None) -> ModelSpec:
    if path.suffix != ".json" and not path.exists():
        msg = f"{shown_path(path)}: there is no such folder; give one with the model's config.json"
        raise UnavailableError(msg)
    file = path / "config.json" if is_folder(path) else path
    if file != path and not is_file(file):
        msg = f"{shown_path(path)}: there is no config.json in this folder"
        raise InputError(msg)
    folder = file.absolute().parent.name
    name = folder if file.name == "config.json" and folder else file.stem
    return _from_config(read_config(file), name, f"configuration {shown_path(file)}", params)


def _from_hub(identifier: str, params: str | None) -> ModelSpec | None:
    """The model of a hub id; None without ``huggingface_hub``, a network, or such a repository."""
    from zeroconf.inputs.hub import download_config  # noqa: PLC0415  (a network client, for unknown ids only)

    file = download_config(identifier)
    if file is None:
        return None
    name = identifier.rsplit("/", 1)[-1]
    return _from_config(read_config(file), name, f"the hub's config.json of {identifier}", params)


def model_path(text: str) -> Path | None:
    """The configuration file or its folder that ``--model`` means; None for a name, an id or a size.

    A folder of a catalogue name counts only when it holds a ``config.json``.
    """
    path = as_path(text)
    if text.endswith(".json") or text.startswith((".", "/", "~")) or is_file(path / "config.json"):
        return path
    known = _BARE_SIZE.fullmatch(text) or text == TINY.name or catalogue.find(text)
    return path if not known and (is_folder(path) or is_file(path)) else None


def model_source(text: str) -> Path | dict[str, object] | None:
    """What Transformers builds the model of ``--model`` from: a configuration's file or folder, or its values.

    None for what is only a shape, like a bare size.
    """
    path = model_path(text)
    if path is not None or _BARE_SIZE.fullmatch(text) or text == TINY.name:
        return path
    entry = catalogue.find(text) or catalogue.find_part(text)
    return dict(entry["config"]) if entry else None


def read_model(text: str, params: str | None = None) -> ModelSpec:
    """The model that ``--model`` means; ``--params`` is the size of a configuration that is not known.

    Raises:
        UnavailableError: a hub id that this machine cannot look up, or a model's folder that is not here.
        InputError: nothing of that name, several, an unreadable or unknown configuration, an absurd size, or another
            than the one that is counted.
    """
    text = clean(text, "model")
    path = model_path(text)
    if path is not None:
        return _read_path(path, params)
    if text == TINY.name:
        return _counted(TINY, params)
    if _BARE_SIZE.fullmatch(text):
        return _counted(read_bare_size(text), params)
    entry = catalogue.find(text)
    if entry is not None:
        return _counted(catalogue.spec(entry, text), params)
    if _HUB_ID.fullmatch(text) and (model := _from_hub(text, params)) is not None:
        return model
    entry = catalogue.find_part(text)
    if entry is not None:
        return _counted(catalogue.spec(entry, text), params)
    near = did_you_mean(text.rsplit("/", 1)[-1], catalogue.names())
    cure = "a path of its config.json or a bare size like 7B works too"
    msg = f"model '{shown(text)}' is not in the catalogue{near}; {cure}"
    raise UnavailableError(msg) if _HUB_ID.fullmatch(text) else InputError(msg)
