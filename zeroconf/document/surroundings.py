"""What a command of a shell script finds around it: the variables exported before, and the folder that it is in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroconf.document.shell import Word

ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_JOBS_FOLDER: Final = re.compile(r"^#SBATCH.*(?:--chdir|-D)\b", re.MULTILINE)


class Surroundings:
    """``folder`` is relative to where the script starts: empty there, None where it is not known."""

    def __init__(self, text: str) -> None:
        """The start of a script; a Slurm job may start elsewhere."""
        self.exported: frozenset[str] = frozenset()
        self.folder: str | None = None if _JOBS_FOLDER.search(text) else ""
        self._outer: list[tuple[frozenset[str], str | None]] = []
        self._pushed: list[str | None] = []

    def enter(self) -> None:
        """A subshell begins."""
        self._outer.append((self.exported, self.folder))

    def leave(self) -> None:
        """A subshell ends, and what it changed with it."""
        if self._outer:
            self.exported, self.folder = self._outer.pop()

    def take(self, words: Sequence[Word], *, is_certain: bool) -> None:
        """A command that may change them; not ``is_certain`` inside of conditions, loops and functions."""
        name, rest = words[0].text, words[1:]
        if name == "export":
            removes = any(word.text == "-n" for word in rest)
            for word in rest:
                self._export(word.text, is_set=is_certain and not removes)
        elif name == "unset":
            self.exported -= {word.text for word in rest}
        elif name in {"cd", "pushd"}:
            self._pushed += [self.folder] if name == "pushd" else []
            places = [word for word in rest if not word.text.startswith("-")]
            is_known = is_certain and len(places) == 1 == len(rest) and places[0].is_known
            self.folder = _beneath(self.folder, places[0].text) if is_known else None
        elif name == "popd":
            self.folder = self._pushed.pop() if self._pushed and is_certain else None

    def _export(self, text: str, *, is_set: bool) -> None:
        found = ASSIGNMENT.match(text)
        name = found[1] if found else text
        if is_set and found and text != found[0]:
            self.exported |= {name}
        elif found or not is_set:
            self.exported -= {name}


def _beneath(folder: str | None, place: str) -> str | None:
    """The folder after ``cd place``: ``configs`` after ``a`` is ``a/configs``."""
    if place.startswith(("/", "~")):
        return place.rstrip("/") or "/"
    return None if folder is None else "/".join(part for part in (folder, place.rstrip("/")) if part not in {"", "."})
