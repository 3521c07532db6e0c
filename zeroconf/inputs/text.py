"""Text from the user: made safe for one-line messages, read with bounds, compared leniently."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroconf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN_LENGTH = 60
_MAX_LENGTH = 4096


def printable(text: str) -> str:
    """The text on one line, without what would move a terminal's cursor or change its title."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def shown(value: object, longest: int = _SHOWN_LENGTH) -> str:
    """A value for a message: on one line, shortened."""
    text = printable((value if isinstance(value, str) else repr(value))[: longest + 1])
    return text if len(text) <= longest else text[: longest - 3] + "..."


def shown_path(path: Path) -> str:
    """A path for a message: whole, on one line."""
    return printable(str(path))


def clean(text: str, what: str) -> str:
    """The text without outer spaces.

    Raises:
        InputError: it is empty, absurdly long, or holds control characters.
    """
    stripped = text.strip()
    if not stripped:
        msg = f"{what} is empty"
        raise InputError(msg)
    if len(stripped) > _MAX_LENGTH or not stripped.isprintable():
        msg = f"{what} '{shown(stripped)}' is not a name, a size or a path"
        raise InputError(msg)
    return stripped


def as_path(text: str) -> Path:
    """The path, with ``~/`` as this user's home; left as it is for a user who has none."""
    return Path(os.path.expanduser(text) if text.startswith("~/") else text)  # noqa: PTH111  (pathlib's raises there)


def is_file(path: Path) -> bool:
    """Whether a regular file is there; False for names that no file system takes."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether a folder is there; False for names that no file system takes."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _why_no_file(path: Path) -> str:
    if is_folder(path):
        return "is a folder; name a file in it"
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a zero byte in the path
        return "there is no such file"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "is not a regular file; copy its content into one"


def read_text(path: Path, limit_bytes: int) -> str:
    """A UTF-8 file, with or without a byte order mark.

    Raises:
        InputError: missing, no regular file, larger than the limit, unreadable, or not UTF-8.
    """
    name = shown_path(path)
    if not is_file(path):
        msg = f"{name}: {_why_no_file(path)}"
        raise InputError(msg)
    try:
        with path.open("rb") as file:
            content = file.read(limit_bytes + 1)
    except OSError as error:
        msg = f"{name}: cannot be read ({error.strerror})"
        raise InputError(msg) from error
    if len(content) > limit_bytes:
        msg = f"{name}: larger than {limit_bytes:,} bytes, so not a configuration"
        raise InputError(msg)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{name}: not UTF-8 text (byte {error.start})"
        raise InputError(msg) from error


def parse_yaml(text: str, where: str) -> Any:
    """The text's only YAML document.

    Raises:
        InputError: no YAML, or a value that is impossible, like 2024-13-45.
    """
    import yaml  # noqa: PLC0415  (only for YAML)

    line = ""
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        if (mark := error.problem_mark) is not None:
            line = f":{mark.line + 1}:{mark.column + 1}"
        problem = error.problem or "unreadable"
    except (yaml.YAMLError, ValueError) as error:
        problem = str(error).partition("\n")[0]
    except RecursionError:
        problem = "nested too deeply"
    except (AttributeError, LookupError, TypeError):  # what PyYAML's constructors raise
        problem = "a value does not fit its tag"
    msg = f"{where}{line}: not YAML ({shown(problem)})"
    raise InputError(msg)


def nearest(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names that look most like this one, best first."""
    import difflib  # noqa: PLC0415  (only mistakes need it)

    by_lower = {other.lower(): other for other in known}
    return [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=limit, cutoff=0.5)]


def did_you_mean(name: str, known: Iterable[str], limit: int = 3) -> str:
    """``, nearest: a, b``, or nothing when no known name is near."""
    names = nearest(name, known, limit)
    return f" (nearest: {', '.join(names)})" if names else ""
