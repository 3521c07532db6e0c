"""Which DeepSpeed and Accelerate releases apply: named, installed beside an interpreter, or the newest known."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from zeroconf.errors import InputError
from zeroconf.inputs.text import clean, is_file, is_folder, shown
from zeroconf.types import Versions

_VERSION = re.compile(r"v?(\d{1,6}(?:\.\d{1,6}){0,4})(?:[^\d.].*|\.(?:dev|post).*)?", re.ASCII)
_METADATA_VERSION = re.compile(r"^Version:\s*(\S+)", re.MULTILINE)
_SITE_PACKAGES = (
    "lib/python3*/site-packages",
    "lib64/python3*/site-packages",
    "lib/python3*/dist-packages",
    "lib/python3/dist-packages",
    "local/lib/python3*/dist-packages",
    "Lib/site-packages",
)
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
    path = Path(text).expanduser() if text.startswith("~/") else Path(text)
    if is_folder(path):
        for name in ("bin/python", "Scripts/python.exe"):
            if is_file(path / name):
                return (path / name).absolute()
    if is_file(path):
        return path.absolute()
    found = shutil.which(text)
    if found is None:
        msg = f"python '{shown(text)}' is not an interpreter; give its path, like venv/bin/python"
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


def read_versions(deepspeed: str | None = None, accelerate: str | None = None, python: str | None = None) -> Versions:
    """The releases named, else those installed beside ``python`` (read, not run), else the newest known.

    Raises:
        InputError: a release that is no number, or no such interpreter.
    """
    newest = Versions()
    folders = _site_packages(_interpreter(python)) if python is not None else []
    sources: list[str] = []

    def choose(package: str, named: str | None, default: tuple[int, ...]) -> tuple[int, ...]:
        if named is not None:
            sources.append(f"{package} as named")
            return parse_version(named, f"{package} version")
        installed = _installed(package, folders)
        if installed is not None:
            sources.append(f"{package} as installed for {shown(str(python))}")
            return installed
        sources.append(f"{package}: the newest that zeroconf knows")
        return default

    return Versions(
        deepspeed=choose("deepspeed", deepspeed, newest.deepspeed),
        accelerate=choose("accelerate", accelerate, newest.accelerate),
        source=newest.source if deepspeed is accelerate is python is None else "; ".join(sources),
    )
