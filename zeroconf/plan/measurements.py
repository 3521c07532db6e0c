"""The runs that a file holds: one that ``smoke-test --json`` printed, or the measurements that each run is added to."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeroconf.errors import InputError
from zeroconf.inputs.text import is_file, read_text, shown, shown_path
from zeroconf.resources import data_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SCHEMA: Final = "zeroconf/smoke-test/1"
_LARGEST_FILE_BYTES: Final = 10_000_000
_SUFFIX: Final = ".jsonl"
# what a line of the measurements has beside the run (smoke/result.py: append_measurement)
_OF_A_LINE: Final = ("time", "ds_config")


class Recorded(NamedTuple):
    """A run as it was printed, and the place that messages name."""

    values: dict[str, Any]
    where: str


def read_runs(path: Path) -> list[Recorded] | None:
    """The file's runs, the newest first; None for another kind of file.

    Of a file of measurements that has grown beyond 10 MB the newest are read.

    Raises:
        InputError: it cannot be read.
    """
    name = shown_path(path)
    if path.suffix == _SUFFIX and is_file(path):
        lines = [(number, _run(line)) for number, line in _last_lines(path)]
        found = [Recorded(run, f"{name}:{number}") for number, run in reversed(lines) if run]
        if not found:
            msg = f"{name}: no line of it is a run; zeroconf smoke-test adds one to its own file with each"
            raise InputError(msg)
        return found
    run = _run(read_text(path, _LARGEST_FILE_BYTES))
    return None if run is None else [Recorded(run, name)]


def check(run: Recorded) -> None:
    """Whether it is what this release prints.

    Raises:
        InputError: it is not.
    """
    import jsonschema  # noqa: PLC0415  (40 ms, for this file only)

    schema = json.loads(data_path("schemas/smoke-test.schema.json").read_text(encoding="utf-8"))
    errors = jsonschema.Draft202012Validator(schema).iter_errors(run.values)
    if (first := next(errors, None)) is not None:
        place = ".".join(map(str, first.path)) or "the result"
        msg = f"{run.where}: not what this release's smoke-test --json prints: {place}: {shown(first.message)}"
        raise InputError(msg)


def is_of(run: Recorded, model: Mapping[str, Any]) -> bool:
    """Whether the run is of the model with these fields, its name and source apart."""
    facts = run.values.get("facts")
    ran = facts.get("architecture") if isinstance(facts, dict) else None
    # as JSON has it, which knows no tuples
    shape = json.loads(json.dumps({name: value for name, value in model.items() if name not in {"name", "source"}}))
    return isinstance(ran, dict) and all(ran.get(name) == value for name, value in shape.items())


def _run(text: str) -> dict[str, Any] | None:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or values.get("schema") != _SCHEMA:
        return None
    return {key: value for key, value in values.items() if key not in _OF_A_LINE}


def _last_lines(path: Path) -> list[tuple[int, str]]:
    """The lines of the file's end with their numbers, which count from the end where its beginning is left out."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LARGEST_FILE_BYTES))
            lines = file.read(_LARGEST_FILE_BYTES).decode("utf-8", "replace").splitlines()
    except OSError as error:
        msg = f"{shown_path(path)}: cannot be read ({error.strerror})"
        raise InputError(msg) from error
    if size <= _LARGEST_FILE_BYTES:
        return list(enumerate(lines, 1))
    return list(enumerate(lines, -len(lines)))[1:]
