"""A Hugging Face ``config.json`` as plain JSON: read with bounds, every value checked when it is asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

from zeroconf.errors import InputError
from zeroconf.inputs.text import read_text, shown, shown_path

if TYPE_CHECKING:
    from pathlib import Path

_FILE_LIMIT_BYTES = 4_000_000
MAX_LAYERS = 10_000
MAX_SIZE = 100_000_000


class Config:
    """Typed access to a configuration's values; ``where`` opens every message.

    A null counts as missing, as in Hugging Face configurations. Keys are alternatives: the first
    present one is read.
    """

    def __init__(self, values: dict[str, object], where: str) -> None:
        self.values = values
        self.where = where

    def _find(self, keys: tuple[str, ...]) -> tuple[str, object]:
        for key in keys:
            if self.values.get(key) is not None:
                return key, self.values[key]
        return keys[0], None

    def fail(self, message: str) -> NoReturn:
        """Raise an InputError about this configuration."""
        msg = f"{self.where}: {message}"
        raise InputError(msg)

    def count(self, *keys: str, default: int | None = None, low: int = 1, high: int = MAX_SIZE) -> int:
        """A positive integer; without a default the key is required."""
        key, value = self._find(keys)
        if value is None:
            if default is None:
                self.fail(f"'{key}' is missing")
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.fail(f"'{key}' must be an integer from {low} to {high}, not {shown(value)}")
        return value

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.values.get(key) is not None

    def flag(self, *keys: str, default: bool) -> bool:
        """A boolean."""
        key, value = self._find(keys)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fail(f"'{key}' must be true or false, not {shown(value)}")
        return value

    def word(self, key: str, default: str = "") -> str:
        """A string."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            self.fail(f"'{key}' must be a string, not {shown(value)}")
        return value

    def counts(self, key: str) -> list[int]:
        """A list of integers; empty when missing."""
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
            self.fail(f"'{key}' must be a list of integers, not {shown(value)}")
        return value

    def part(self, key: str) -> Config | None:
        """A nested configuration, if it is there."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.fail(f"'{key}' must be a mapping, not {shown(value)}")
        return Config(value, f"{self.where}: {key}")


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is not a JSON number"
    raise ValueError(msg)


def read_config(path: Path) -> Config:
    """The file as a Config.

    Raises:
        InputError: it cannot be read, or is no JSON object.
    """
    where = shown_path(path)
    text = read_text(path, _FILE_LIMIT_BYTES)
    try:
        values = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        msg = f"{where}:{error.lineno}:{error.colno}: not JSON ({error.msg})"
        raise InputError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"{where}: not a configuration ({shown(str(error))})"
        raise InputError(msg) from error
    if not isinstance(values, dict):
        msg = f"{where}: not a configuration (a JSON object is expected)"
        raise InputError(msg)
    return Config(values, where)
