"""A Hugging Face ``config.json`` as plain JSON: read with bounds, every value checked when it is asked for."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from zeroconf.errors import InputError
from zeroconf.inputs.text import read_text, shown, shown_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FILE_LIMIT_BYTES = 4_000_000
MAX_LAYERS = 10_000
MAX_SIZE = 100_000_000


class Config:
    """Typed access to a configuration's values; ``where`` opens every message.

    A null counts as missing, as in Hugging Face configurations. Keys are alternatives: the first present one is read.
    For keys that are not there at all, ``class_values`` hold what the configuration's class says; of required keys only
    where the file is allowed to leave them out (``complete``). Those read, unlike what a reader would have taken, are
    in ``filled``.
    """

    def __init__(
        self,
        values: dict[str, object],
        where: str,
        class_values: Mapping[str, object] = MappingProxyType({}),
        *,
        complete: bool = False,
    ) -> None:
        self.values = values
        self.where = where
        self.class_values = class_values
        self.complete = complete
        self.filled: dict[str, object] = {}

    def _find(self, keys: tuple[str, ...], default: object) -> tuple[str, object]:
        for key in keys:
            if self.values.get(key) is not None:
                return key, self.values[key]
        if any(key in self.values for key in keys) or (default is None and not self.complete):
            return keys[0], None
        for key in keys:
            if key in self.class_values:
                value = self.class_values[key]
                if value != default:
                    self.filled[key] = value
                return key, value
        return keys[0], None

    def fail(self, message: str) -> NoReturn:
        """Raise an InputError about this configuration."""
        msg = f"{self.where}: {message}"
        raise InputError(msg)

    def count(self, *keys: str, default: int | None = None, low: int = 1, high: int = MAX_SIZE) -> int:
        """A positive integer; without a default the key is required."""
        key, value = self._find(keys, default)
        if value is None:
            if default is None:
                self.fail(f"'{key}' is missing")
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.fail(f"'{key}' must be an integer from {low} to {high}, not {shown(value)}")
        return value

    def has(self, *keys: str) -> bool:
        """Whether one of the keys is there and not null."""
        return any(self.values.get(key) is not None for key in keys)

    def knows(self, *keys: str) -> bool:
        """Whether one of the keys is there and not null, or the class has a value for one and none is there."""
        if self.has(*keys):
            return True
        return not any(key in self.values for key in keys) and any(key in self.class_values for key in keys)

    def flag(self, *keys: str, default: bool) -> bool:
        """A boolean; null is false, as in Python."""
        key, value = self._find(keys, default)
        if value is None:
            return default and not any(key in self.values for key in keys)
        if not isinstance(value, bool):
            self.fail(f"'{key}' must be true or false, not {shown(value)}")
        return value

    def word(self, key: str, default: str = "") -> str:
        """A string."""
        _, value = self._find((key,), default)
        if value is None:
            return default
        if not isinstance(value, str):
            self.fail(f"'{key}' must be a string, not {shown(value)}")
        return value

    def counts(self, key: str) -> list[int] | None:
        """A list of integers, which may be empty; None when missing."""
        value = self.values.get(key)
        if value is None:
            return None
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
