"""Files that a linted file names: read, and linted as their reader would see them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zeroconf.document.read import parse_document
from zeroconf.errors import InputError
from zeroconf.lint.files import STDIN, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zeroconf.document.document import Document
    from zeroconf.document.manifest import Part

    Siblings = Callable[[str], Document | None]


def among(files: Mapping[str, str]) -> Siblings:
    """Finds what is named among texts by name."""

    def read(name: str) -> Document | None:
        return parse_document(files[name].encode(), name) if name in files else None

    return read


def within(parts: Sequence[Part], part: Part) -> Siblings:
    """Finds what a part of a manifest names by its last name, the nearest of several; else beside the manifest."""
    others = beside(part.document.path)

    def read(name: str) -> Document | None:
        last = name.rpartition("/")[2]
        found = [one for one in parts if one.name == last]
        nearest = min(found, key=lambda one: abs(one.holder - part.holder), default=None)
        return nearest.document if nearest else others(name)

    return read


def beside(path: str) -> Siblings:
    """Finds what the file at ``path`` names: beside it, or from the current folder, where most launches start."""
    folder = "" if path == STDIN else os.path.dirname(path)  # noqa: PTH120  (no pathlib here: a thousand files)

    def read(name: str) -> Document | None:
        name = os.path.expanduser(name)  # noqa: PTH111  (as above)
        for place in dict.fromkeys((os.path.join(folder, name), name)):  # noqa: PTH118  (as above)
            if os.path.isfile(place):  # noqa: PTH113  (as above)
                try:
                    return parse_document(read_file(place), place)
                except InputError:
                    return None
        return None

    return read
