"""The machine as the probes see it: files below a root, the environment, programs, and NVML."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping  # noqa: TC003  (dataclasses keep their annotations)
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_READ_LIMIT_BYTES = 1_000_000
_PROGRAM_SECONDS = 20.0
_LARGEST_NUMBER = 10**18


def _pynvml() -> Any:
    """NVML's Python module (nvidia-ml-py, of the extra ``detect``), or None where it is not installed."""
    try:
        import pynvml  # noqa: PLC0415  (an optional package)
    except ImportError:
        return None
    return pynvml


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where the probes look: nothing else is read, so that a copy of another machine can be looked at.

    ``root`` stands before every path that is read, ``nvml`` is a module with NVML's functions (pynvml), None for none.
    """

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    nvml: Any = None

    def path(self, name: str) -> Path:
        """Where an absolute path of the machine is found."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str | None:
        """What a file says, without outer blanks; None when it cannot be read. At most a megabyte is read."""
        try:
            path = self.path(name)
            if not path.is_file():
                return None
            with path.open("rb") as file:
                return file.read(_READ_LIMIT_BYTES).decode("utf-8", "surrogateescape").strip()
        except (OSError, ValueError):
            return None

    def number(self, name: str) -> int | None:
        """What a file says, when it is a count."""
        return count(self.text(name))

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none when it cannot be read."""
        try:
            return sorted(os.listdir(self.path(folder)))  # noqa: PTH208  (names, of which some are no text)
        except (OSError, ValueError):
            return []

    def exists(self, name: str) -> bool:
        """Whether something is at a path."""
        try:
            return os.path.lexists(self.path(name))
        except (OSError, ValueError):
            return False

    def real(self, name: str) -> str:
        """A path with its links followed, as the machine writes it; the path itself where they lead nowhere."""
        try:
            found = Path(os.path.realpath(self.path(name))).relative_to(os.path.realpath(self.root))
        except (OSError, ValueError):
            return name
        return f"/{found}"

    def run(self, *command: str) -> str | None:
        """What a program prints; None when it is not there, fails or takes too long."""
        program = shutil.which(command[0], path=self.environment.get("PATH", ""))
        if program is None:
            return None
        try:
            done = subprocess.run(
                [program, *command[1:]],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROGRAM_SECONDS,
                check=False,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def this_machine() -> Machine:
    """The machine that runs this."""
    return Machine(nvml=_pynvml())


def count(text: str | None) -> int | None:
    """A whole number that is not negative and not absurd, else None."""
    try:
        value = int(text or "")
    except ValueError:
        return None
    return value if 0 <= value <= _LARGEST_NUMBER else None


def printable(text: str) -> str:
    """Text from the machine on one line, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in text)[:200]
