"""The files to lint: named ones as they are, and in a folder those that could be configurations."""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STDIN = "-"
_LIMIT_BYTES = 64_000_000
_SUFFIXES = {".json", ".yaml", ".yml", ".sh", ".bash", ".sbatch", ".slurm"}
_HOSTFILE_SUFFIXES = {"", ".hostfile", ".txt"}
_LEFT_OUT = {"__pycache__", "node_modules", "site-packages", "venv"}


class Source(NamedTuple):
    """A file to lint; ``is_named`` when the user named it, and not just the folder that holds it."""

    path: str
    is_named: bool


def find_files(paths: Iterable[str]) -> Iterator[Source]:
    """Every file once, in the order named; a folder's files by name, hidden ones left out."""
    seen: set[str] = set()
    for path in paths:
        is_folder = path != STDIN and os.path.isdir(path)  # noqa: PTH112  (no pathlib here: a thousand files)
        for source in _in_folder(path) if is_folder else [Source(path, is_named=True)]:
            name = os.path.abspath(source.path)  # noqa: PTH100  (as above)
            if name not in seen:
                seen.add(name)
                yield source


def _in_folder(folder: str) -> Iterator[Source]:
    unreadable: list[OSError] = []
    for place, folders, names in os.walk(folder, onerror=unreadable.append):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _LEFT_OUT)
        for name in sorted(names):
            if not name.startswith(".") and _may_be_configuration(name.lower()):
                path = os.path.normpath(os.path.join(place, name))  # noqa: PTH118  (as above)
                if not _special(path):
                    yield Source(path, is_named=False)
    # reading them as files tells why
    yield from (Source(error.filename, is_named=True) for error in unreadable)


def _may_be_configuration(name: str) -> bool:
    suffix = os.path.splitext(name)[1]  # noqa: PTH122  (as above)
    return suffix in _SUFFIXES or ("hostfile" in name and suffix in _HOSTFILE_SUFFIXES)


def read_file(path: str) -> bytes:
    """The file's bytes; those of standard input for ``-``.

    Raises:
        InputError: it cannot be read, is no file that ends, or is too large to be a configuration.
    """
    special = "" if path == STDIN else _special(path)
    if special and not _is_open(path):
        msg = f"{_printable(path)}: {special}, not a regular file; give its content to standard input (-)"
        raise InputError(msg)
    try:
        if path == STDIN:
            content = _standard_input()
        else:
            with open(path, "rb") as file:  # noqa: PTH123  (as above)
                content = file.read(_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        msg = f"{_printable(path)}: {_why(error)}"
        raise InputError(msg) from error
    if len(content) > _LIMIT_BYTES:
        msg = f"{_printable(path)}: larger than {_LIMIT_BYTES:,} bytes, so not a configuration"
        raise InputError(msg)
    return content


def _special(path: str) -> str:
    """What a path leads to that may never end, like a pipe without a writer; empty for a file, a folder, nothing."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  (as above)
    except (OSError, ValueError):
        return ""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    return "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"


def _is_open(path: str) -> bool:
    """Whether this process was given the file opened, like a shell's ``<(command)``."""
    from zeroconf.files import open_descriptor  # noqa: PLC0415  (hardly any file needs it)

    return open_descriptor(path) is not None


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise OSError(errno.EBADF, "standard input is closed")
    return sys.stdin.buffer.read(_LIMIT_BYTES + 1)


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, (FileNotFoundError, NotADirectoryError, ValueError)):
        return "there is no such file"
    return f"cannot be read ({error.strerror})"


def _printable(path: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in path)
