"""The project file: the options in ``zeroconf.toml``, or in ``[tool.zeroconf]`` of ``pyproject.toml``."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from zeroconf.choices import Attention, Checkpointing, CrossEntropy, Offload, Optimizer, Precision, Quantization, Reader
from zeroconf.errors import InputError
from zeroconf.inputs.text import did_you_mean, is_file, is_folder, read_text, shown, shown_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FILE_LIMIT_BYTES = 4_000_000
_AT = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)")


class Option(NamedTuple):
    """What one key takes; ``schema`` is its JSON Schema, ``description`` the option's help in short.

    A list holds strings. A dict holds the keys of ``table``, or, without one, tables of ``rule = "reason"``.
    """

    kind: type
    description: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    is_path: bool = False
    is_count: bool = False
    table: Mapping[str, Option] = {}

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the value."""
        kind = ["string", "integer"] if self.is_count else _SCHEMA_TYPES[self.kind]
        schema: dict[str, Any] = {"type": kind, "description": self.description}
        if self.low is not None:
            schema["minimum"] = self.low
        if self.high is not None:
            schema["maximum"] = self.high
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.kind is list:
            schema["items"] = {"type": "string"}
        if self.table:
            schema |= _table_schema(self.table)
        elif self.kind is dict:
            reasons = {"type": "object", "additionalProperties": {"type": "string", "pattern": r"\S"}}
            schema["additionalProperties"] = reasons
        return schema

    def accepts(self, value: object) -> bool:
        """Whether a TOML value is of the kind, in the range, and one of the choices."""
        if self.is_count and isinstance(value, int):
            return not isinstance(value, bool)
        if self.kind in (int, float):
            if isinstance(value, bool) or not isinstance(value, (int, float) if self.kind is float else int):
                return False
            return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
        if isinstance(value, list):
            return self.kind is list and all(isinstance(item, str) for item in value)
        if isinstance(value, dict) and not self.table:
            return self.kind is dict and all(
                isinstance(reasons, dict) and _are_reasons(reasons) for reasons in value.values()
            )
        return isinstance(value, self.kind) and (not self.choices or value in self.choices)

    @property
    def wanted(self) -> str:
        """What the key takes, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is dict and not self.table:
            return 'a table of tables like "configs/*.json" = { ZC401 = "reason" }, every reason given'
        words = {str: "a string", int: "an integer", float: "a number", bool: "true or false", dict: "a table"}
        words[list] = "a list of strings"
        if self.low is not None and self.high is not None:
            return f"{words[self.kind]} from {self.low:g} to {self.high:g}"
        return f"{words[self.kind]} of at least {self.low:g}" if self.low is not None else words[self.kind]


def _are_reasons(reasons: dict[str, object]) -> bool:
    return all(isinstance(reason, str) and reason.strip() for reason in reasons.values())


def _table_schema(table: Mapping[str, Option]) -> dict[str, Any]:
    return {"properties": {key: option.schema for key, option in table.items()}, "additionalProperties": False}


_SCHEMA_TYPES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
}
LINT_OPTIONS = {
    "select": Option(list, "check only these rules: codes, prefixes like ZC1, or names"),
    "ignore": Option(list, "leave these rules out: codes, prefixes like ZC1, or names"),
    "fail-on": Option(str, "the least severity that fails", choices=("error", "warning", "info")),
    "per-file-ignores": Option(dict, "by file pattern: the rules to ignore there, each with its reason"),
    "baseline": Option(str, "an earlier report (--format json); its findings are not reported", is_path=True),
}
OPTIONS = {
    "model": Option(str, "catalogue name, Hugging Face id, config.json, or a bare size like 7B", is_path=True),
    "params": Option(str, "parameters of a config.json whose architecture is not known, like 7B", is_count=True),
    "hardware": Option(str, "8xA100-80GB, 4x8xH100-80GB, p4d.24xlarge, an inventory file, or auto", is_path=True),
    "network": Option(str, "the link between nodes: a class (100gbe, ib-ndr) or a rate (25Gbps)"),
    "intra-node": Option(str, "the link between a node's GPUs: nvlink, pcie4, or a rate"),
    "host-memory": Option(str, "per node, like 512GiB"),
    "nvme": Option(str, "per node, PATH:CAPACITY[:READ:WRITE]"),
    "calibrate": Option(
        str, "what smoke-test --json or detect --measure-network measured on this hardware", is_path=True
    ),
    "seq-len": Option(int, "tokens per sequence", low=1),
    "micro-batch-size": Option(int, "sequences per GPU and forward pass", low=1),
    "global-batch-size": Option(int, "sequences per optimizer step over all GPUs", low=1),
    "gradient-accumulation": Option(int, "micro steps per optimizer step", low=1),
    "precision": Option(str, "training precision", choices=get_args(Precision)),
    "optimizer": Option(str, "the optimizer", choices=get_args(Optimizer)),
    "client-optimizer": Option(bool, "the script brings its own optimizer"),
    "activation-checkpointing": Option(str, "recompute activations", choices=get_args(Checkpointing)),
    "attention": Option(str, "attention implementation", choices=get_args(Attention)),
    "cross-entropy": Option(str, "what computes the loss", choices=get_args(CrossEntropy)),
    "lora-rank": Option(int, "rank of LoRA adapters on all linear layers", low=1),
    "quantize": Option(str, "how LoRA's frozen linear layers are packed", choices=get_args(Quantization)),
    "trainable-params": Option(str, "trainable parameters, like 20M", is_count=True),
    "frozen-params": Option(str, "parameters of a frozen model beside, like 7B", is_count=True),
    "zero-stage": Option(int, "pins the ZeRO stage", low=0, high=3),
    "offload": Option(str, "pins the offload", choices=get_args(Offload)),
    "headroom": Option(float, "share of the card that a comfortable plan leaves free", low=0, high=0.9),
    "for": Option(str, "who reads the written file", choices=get_args(Reader)),
    "deepspeed-version": Option(str, "the DeepSpeed release to check against, like 0.16.4"),
    "accelerate-version": Option(str, "the Accelerate release to check against, like 1.2.1"),
    "python": Option(str, "the training environment's interpreter", is_path=True),
    "lint": Option(dict, "settings of the linter", table=LINT_OPTIONS),
}


def json_schema() -> dict[str, Any]:
    """The published schema of ``zeroconf.toml`` and of ``[tool.zeroconf]``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "zeroconf project settings",
        "description": "zeroconf.toml, or the table [tool.zeroconf] of pyproject.toml",
        "type": "object",
        **_table_schema(OPTIONS),
    }


def _parse(path: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415  (only where there are settings: the linter starts without)

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
    if os.path.lexists(own):
        is_dangling = own.is_symlink() and not own.exists()
        what = "a folder" if is_folder(own) else "a link to no file" if is_dangling else "no regular file"
        msg = f"{shown_path(own)}: {what}, but the project's settings would stand in it; mend it, or remove it"
        raise InputError(msg)
    pyproject = folder / "pyproject.toml"
    if is_file(pyproject):
        tool = _parse(pyproject).get("tool")
        if isinstance(tool, dict) and "zeroconf" in tool:
            return pyproject, tool["zeroconf"]
    return None


def _checked(name: str, option: Option, value: object, path: Path) -> object:
    if not option.accepts(value):
        msg = f"{shown_path(path)}: '{name}' must be {option.wanted}, not {shown(value)}"
        raise InputError(msg)
    if option.is_path and isinstance(value, str) and is_file(path.parent / value):
        return str(path.parent / value)
    if option.table and isinstance(value, dict):
        return _read_table(value, option.table, path, prefix=f"{name}.")
    return value


def _read_table(
    values: dict[str, object], options: Mapping[str, Option], path: Path, prefix: str = ""
) -> dict[str, object]:
    result: dict[str, object] = {}
    for written, value in values.items():
        key = written.replace("_", "-")
        if key not in options:
            msg = f"{shown_path(path)}: key '{prefix}{shown(written)}' is not known{did_you_mean(key, options)}"
            raise InputError(msg)
        if key.replace("-", "_") in result:
            msg = (
                f"{shown_path(path)}: key '{prefix}{shown(written)}' is given twice, with a dash and with an underscore"
            )
            raise InputError(msg)
        result[key.replace("-", "_")] = _checked(prefix + key, options[key], value, path)
    return result


def read_folder(folder: Path) -> tuple[Path, dict[str, object]] | None:
    """The project file in this very folder and its settings; None without one. As ``read_project`` otherwise."""
    found = _settings(folder)
    if found is None:
        return None
    path, values = found
    if not isinstance(values, dict):
        msg = f"{shown_path(path)}: tool.zeroconf must be a table"
        raise InputError(msg)
    return path, _read_table(values, OPTIONS, path)


def beside(project: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A project file's settings with the options given, which win; ``params`` are those of the model beside them."""
    settings = {**project, **given}
    if "model" in given and "params" not in given:
        settings.pop("params", None)
    return settings


def find_project(start: Path) -> tuple[Path, dict[str, object]] | None:
    """The nearest project file at or above ``start`` and its settings; None without one.

    Keys are the option names with underscores, the nearest file alone counts, and a relative path of a
    file that exists beside the project file is resolved against it.

    Raises:
        InputError: no regular file, malformed TOML, an unknown key, or a value of the wrong type.
    """
    folder = start.absolute()
    places = (read_folder(place) for place in (folder, *folder.parents))
    return next((found for found in places if found), None)


def read_project(start: Path) -> dict[str, object]:
    """The settings that ``find_project`` finds; empty without a file."""
    found = find_project(start)
    return found[1] if found else {}
