"""The project file: the options in ``zeroconf.toml``, or in ``[tool.zeroconf]`` of ``pyproject.toml``."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from zeroconf.errors import InputError
from zeroconf.inputs.text import did_you_mean, is_file, read_text, shown, shown_path
from zeroconf.types import Attention, Checkpointing, Offload, Optimizer, Precision, Reader

if TYPE_CHECKING:
    from pathlib import Path

_FILE_LIMIT_BYTES = 4_000_000
_AT = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)")


class Option(NamedTuple):
    """What one key takes; ``schema`` is its JSON Schema, ``description`` the option's help in short."""

    kind: type
    description: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    is_path: bool = False
    is_count: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the value."""
        names = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}
        kind = ["string", "integer"] if self.is_count else names[self.kind]
        schema: dict[str, Any] = {"type": kind, "description": self.description}
        if self.low is not None:
            schema["minimum"] = self.low
        if self.high is not None:
            schema["maximum"] = self.high
        if self.choices:
            schema["enum"] = list(self.choices)
        return schema

    def accepts(self, value: object) -> bool:
        """Whether a TOML value is of the kind, in the range, and one of the choices."""
        if self.is_count and isinstance(value, int):
            return not isinstance(value, bool)
        if self.kind in (int, float):
            if isinstance(value, bool) or not isinstance(value, (int, float) if self.kind is float else int):
                return False
            return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
        return isinstance(value, self.kind) and (not self.choices or value in self.choices)

    @property
    def wanted(self) -> str:
        """What the key takes, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        words = {str: "a string", int: "an integer", float: "a number", bool: "true or false", dict: "a table"}
        if self.low is not None and self.high is not None:
            return f"{words[self.kind]} from {self.low:g} to {self.high:g}"
        return f"{words[self.kind]} of at least {self.low:g}" if self.low is not None else words[self.kind]


OPTIONS = {
    "model": Option(str, "catalogue name, Hugging Face id, config.json, or a bare size like 7B", is_path=True),
    "hardware": Option(str, "8xA100-80GB, 4x8xH100-80GB, p4d.24xlarge, an inventory file, or auto", is_path=True),
    "network": Option(str, "the link between nodes: a class (100gbe, ib-ndr) or a rate (25Gbps)"),
    "intra-node": Option(str, "the link between a node's GPUs: nvlink, pcie4, or a rate"),
    "host-memory": Option(str, "per node, like 512GiB"),
    "nvme": Option(str, "per node, PATH:CAPACITY[:READ:WRITE]"),
    "seq-len": Option(int, "tokens per sequence", low=1),
    "micro-batch-size": Option(int, "sequences per GPU and forward pass", low=1),
    "global-batch-size": Option(int, "sequences per optimizer step over all GPUs", low=1),
    "gradient-accumulation": Option(int, "micro steps per optimizer step", low=1),
    "precision": Option(str, "training precision", choices=get_args(Precision)),
    "optimizer": Option(str, "the optimizer", choices=get_args(Optimizer)),
    "client-optimizer": Option(bool, "the script brings its own optimizer"),
    "activation-checkpointing": Option(str, "recompute activations", choices=get_args(Checkpointing)),
    "attention": Option(str, "attention implementation", choices=get_args(Attention)),
    "lora-rank": Option(int, "rank of LoRA adapters on all linear layers", low=1),
    "trainable-params": Option(str, "trainable parameters, like 20M", is_count=True),
    "frozen-params": Option(str, "parameters of a frozen model beside, like 7B", is_count=True),
    "zero-stage": Option(int, "pins the ZeRO stage", low=0, high=3),
    "offload": Option(str, "pins the offload", choices=get_args(Offload)),
    "headroom": Option(float, "share of the card that a comfortable plan leaves free", low=0, high=0.9),
    "for": Option(str, "who reads the written file", choices=get_args(Reader)),
    "deepspeed-version": Option(str, "the DeepSpeed release to check against, like 0.16.4"),
    "accelerate-version": Option(str, "the Accelerate release to check against, like 1.2.1"),
    "python": Option(str, "the training environment's interpreter", is_path=True),
    "lint": Option(dict, "settings of the linter"),
}


def json_schema() -> dict[str, Any]:
    """The published schema of ``zeroconf.toml`` and of ``[tool.zeroconf]``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "zeroconf project settings",
        "description": "zeroconf.toml, or the table [tool.zeroconf] of pyproject.toml",
        "type": "object",
        "properties": {key: option.schema for key, option in OPTIONS.items()},
        "additionalProperties": False,
    }


def _parse(path: Path) -> dict[str, Any]:
    where = shown_path(path)
    try:
        return tomllib.loads(read_text(path, _FILE_LIMIT_BYTES))
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        at = _AT.search(message)
        line = f":{at[1]}:{at[2]}" if at and at[1] else ""
        msg = f"{where}{line}: not TOML ({shown(_AT.sub('', message)).lower()})"
        raise InputError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"{where}: not TOML ({shown(str(error))})"
        raise InputError(msg) from error


def _settings(folder: Path) -> tuple[Path, object] | None:
    own = folder / "zeroconf.toml"
    if is_file(own):
        return own, _parse(own)
    pyproject = folder / "pyproject.toml"
    if is_file(pyproject):
        tool = _parse(pyproject).get("tool")
        if isinstance(tool, dict) and "zeroconf" in tool:
            return pyproject, tool["zeroconf"]
    return None


def _checked(key: str, value: object, path: Path) -> object:
    option = OPTIONS[key]
    if not option.accepts(value):
        msg = f"{shown_path(path)}: '{key}' must be {option.wanted}, not {shown(value)}"
        raise InputError(msg)
    if option.is_path and isinstance(value, str) and is_file(path.parent / value):
        return str(path.parent / value)
    return value


def read_project(start: Path) -> dict[str, object]:
    """The settings of the nearest project file at or above ``start``; empty without one.

    Keys are the option names with underscores, the nearest file alone counts, and a relative path of a
    file that exists beside the project file is resolved against it.

    Raises:
        InputError: malformed TOML, an unknown key, or a value of the wrong type.
    """
    folder = start.absolute()
    found = next((settings for place in (folder, *folder.parents) if (settings := _settings(place))), None)
    if found is None:
        return {}
    path, values = found
    if not isinstance(values, dict):
        msg = f"{shown_path(path)}: tool.zeroconf must be a table"
        raise InputError(msg)
    result: dict[str, object] = {}
    for written, value in values.items():
        key = written.replace("_", "-")
        if key not in OPTIONS:
            msg = f"{shown_path(path)}: key '{shown(written)}' is not known{did_you_mean(key, OPTIONS)}"
            raise InputError(msg)
        if key.replace("-", "_") in result:
            msg = f"{shown_path(path)}: key '{shown(written)}' is given twice, with a dash and with an underscore"
            raise InputError(msg)
        result[key.replace("-", "_")] = _checked(key, value, path)
    return result
