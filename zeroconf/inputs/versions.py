"""Which DeepSpeed and Accelerate releases apply: named, installed beside an interpreter, or the newest known."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.errors import InputError
from zeroconf.inputs.text import as_path, clean, is_file, is_folder, shown
from zeroconf.units import release_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.types import Versions

# PEP 440: the release, then what marks a pre-, post-, development or local release
_VERSION = re.compile(
    r"v?(\d{1,6}(?:\.\d{1,6}){0,4})"
    r"(?:[-_.]?(?:alpha|beta|preview|pre|post|rev|dev|rc|a|b|c|r)[-_.]?\d*)*(?:-\d+)?"
    r"(?:\+[a-z\d]+(?:[-_.][a-z\d]+)*)?",
    re.ASCII | re.IGNORECASE,
)
_PYTHON = re.compile(r"python|pypy", re.IGNORECASE)
_METADATA_VERSION = re.compile(r"^Version:\s*(\S+)", re.MULTILINE)
_SITE_PACKAGES = (
    "lib/python3*/site-packages",
    "lib64/python3*/site-packages",
    "lib/python3*/dist-packages",
    "lib/python3/dist-packages",
    "local/lib/python3*/dist-packages",
    "Lib/site-packages",
)
# as the extra "train" in pyproject.toml
_OLDEST_WRITTEN = {"DeepSpeed": (0, 16, 0), "Accelerate": (1, 0, 0)}
_METADATA_LIMIT_BYTES = 1_000_000


def parse_version(text: str, what: str) -> tuple[int, ...]:
    """``0.16.4`` or ``0.16.4+cu121`` to numbers.

    Raises:
        InputError: not a release number.
    """
    match = _VERSION.fullmatch(clean(text, what))
    if match is None:
        msg = f"{what} '{shown(text)}' is not a release; write it like 0.16.4"
        raise InputError(msg)
    return tuple(int(part) for part in match[1].split("."))


def _interpreter(python: str) -> Path:
    text = clean(python, "python")
    path = as_path(text)
    if is_folder(path):
        inside = (path / name for name in ("bin/python", "Scripts/python.exe"))
        path = next((candidate for candidate in inside if is_file(candidate)), path)
    found = str(path) if is_file(path) else shutil.which(text)
    # by name, since it is not run: any other program may stand beside a Python's packages
    if found is None or not any(_PYTHON.search(name) for name in (Path(found).name, Path(found).resolve().name)):
        msg = f"python '{shown(text)}' is not a Python interpreter; give its path, like venv/bin/python, "
        msg += "or name the release with --deepspeed-version"
        raise InputError(msg)
    return Path(found).absolute()


def _site_packages(interpreter: Path) -> list[Path]:
    """Folders of installed packages: of the environment that holds the interpreter, then of its base."""
    prefixes = [interpreter.parent.parent, interpreter.parent]
    own_environment = is_file(interpreter.parent.parent / "pyvenv.cfg")
    if not own_environment:
        prefixes.append(interpreter.resolve().parent.parent)
    return [folder for prefix in prefixes for pattern in _SITE_PACKAGES for folder in sorted(prefix.glob(pattern))]


def _installed(package: str, folders: list[Path]) -> tuple[int, ...] | None:
    for folder in folders:
        for metadata in (
            *folder.glob(f"{package}-*.dist-info/METADATA"),
            *folder.glob(f"{package}-*.egg-info/PKG-INFO"),
        ):
            try:
                with metadata.open(encoding="utf-8", errors="replace") as file:
                    found = _METADATA_VERSION.search(file.read(_METADATA_LIMIT_BYTES))
            except OSError:
                continue
            if found and (match := _VERSION.fullmatch(found[1])):
                return tuple(int(part) for part in match[1].split("."))
    return None


def _three(release: tuple[int, ...]) -> tuple[int, ...]:
    return (*release, 0, 0)[:3]


class Found(NamedTuple):
    """A release that applies, and where it comes from; ``stated``: named or installed, not the newest known."""

    release: tuple[int, ...]
    source: str
    stated: bool


def find_releases(
    deepspeed: str | None,
    accelerate: str | None,
    python: str | None,
    *,
    newest: Mapping[str, tuple[int, ...]],
    oldest: Mapping[str, tuple[int, ...]],
    purpose: str,
) -> tuple[Found, Found]:
    """The releases named, else those installed beside ``python`` (read, not run), else the newest known.

    ``newest`` and ``oldest`` are by name, "DeepSpeed" and "Accelerate"; ``purpose`` is what zeroconf does with them,
    for the message about one that is too old.

    Raises:
        InputError: a release that is no number or too old, no such interpreter, or one whose packages are not found.
    """
    folders = _site_packages(_interpreter(python)) if python is not None else []
    if python is not None and deepspeed is None and not folders:
        msg = f"the packages of python '{shown(python)}' are not found; name the release with --deepspeed-version"
        raise InputError(msg)

    def choose(name: str, named: str | None) -> Found:
        package, known = name.lower(), newest[name]
        installed = _installed(package, folders) if named is None else None
        if named is not None:
            release, source = parse_version(named, f"{package} version"), "as named"
        elif installed is not None:
            release, source = installed, f"as installed for {shown(str(python))}"
        else:
            beside = f", as {shown(python)} has none" if python is not None else ""
            return Found(known, f"{package}: the newest that zeroconf knows{beside}", stated=False)
        if _three(release) < oldest[name]:
            msg = f"{name} {release_text(release)} ({source}) is too old: zeroconf {purpose} {name} "
            msg += f"{release_text(oldest[name])} and newer"
            raise InputError(msg)
        source = f"{package} {source}"
        if _three(release) > known:
            source += f"; {name} {release_text(release)} is newer than the newest known, {release_text(known)}: "
            source += "its keys were not checked"
        return Found(release, source, stated=True)

    return choose("DeepSpeed", deepspeed), choose("Accelerate", accelerate)


def read_versions(deepspeed: str | None = None, accelerate: str | None = None, python: str | None = None) -> Versions:
    """The releases to write for, found as ``find_releases`` does, in the range that ``generate`` supports.

    ``source`` says where each comes from, and whether it is newer than the newest known.

    Raises:
        InputError: as ``find_releases``.
    """
    from zeroconf.types import Versions  # noqa: PLC0415  (50 ms that the linter's start does without)

    known = Versions()
    if deepspeed is accelerate is python is None:
        return known
    newest = {"DeepSpeed": known.deepspeed, "Accelerate": known.accelerate}
    found = find_releases(deepspeed, accelerate, python, newest=newest, oldest=_OLDEST_WRITTEN, purpose="writes for")
    source = f"{found[0].source}; {found[1].source}"
    return Versions(deepspeed=found[0].release, accelerate=found[1].release, source=source)
