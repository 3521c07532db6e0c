"""Writes what Transformers' configuration classes hold where a file leaves a key out.

    python schemas/write_class_values.py

Reads the installed Transformers: the plain values of the keys that zeroconf/inputs/architectures reads. A test fails
when the file is stale beside the release that it names.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import transformers

from zeroconf.inputs.architectures.class_values import DATA
from zeroconf.inputs.architectures.read import FAMILIES, LANGUAGE_PARTS

READERS = Path(__file__).parent.parent / "zeroconf" / "inputs" / "architectures"
# not shapes: their readers have rules of their own
LEFT_OUT = {"model_type", "id2label"}


def keys_read() -> set[str]:
    """Every key that a reader names."""
    return {key for path in READERS.glob("*.py") for key in re.findall(r'"([a-z_0-9]+)"', path.read_text("utf-8"))}


def values_of(model_type: str, keys: set[str]) -> dict[str, Any]:
    """The class's own values; None, from which the class derives others, is left out."""
    config_class = transformers.CONFIG_MAPPING[model_type]
    config_class = config_class.sub_configs.get("text_config", config_class)
    fields = dataclasses.fields(config_class)
    return {
        field.name: field.default
        for field in fields
        if field.name in keys - LEFT_OUT and isinstance(field.default, bool | int | str)
    }


def text() -> str:
    """What the file should hold: one model type a line."""
    keys = keys_read()
    known = sorted(name for name in {*FAMILIES, *LANGUAGE_PARTS} if name in transformers.CONFIG_MAPPING)
    lines = ",\n".join(f'  "{name}": {json.dumps(values_of(name, keys))}' for name in known)
    return f'{{\n  "release": "{transformers.__version__}",\n{lines}\n}}\n'


if __name__ == "__main__":
    DATA.write_text(text(), encoding="utf-8")
