"""What holds for a linted file: the command line's options over those of the nearest project file above it."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zeroconf.keys import Release, Releases, newest_releases
from zeroconf.lint.baseline import Key, read_baseline
from zeroconf.lint.selection import codes_of, enabled_codes
from zeroconf.rules.facts import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroconf.choices import Reader as ReaderName
    from zeroconf.rules.registry import Severity

_RANKS = {"info": 0, "warning": 1, "error": 2}
# what the rules were written for; older releases differ in more than they say
_OLDEST_CHECKED = {"DeepSpeed": (0, 9, 0), "Accelerate": (0, 20, 0)}


class Options(NamedTuple):
    """What the command line, or the caller of ``api.lint``, says; None and empty: not said."""

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    fail_on: Severity | None = None
    reader: ReaderName | None = None
    deepspeed_version: str | None = None
    accelerate_version: str | None = None
    python: str | None = None
    baseline: str | None = None
    use_baseline: bool = True


class FileIgnore(NamedTuple):
    """Rules that the project file ignores in the files of a pattern, with the reason."""

    pattern: str
    codes: frozenset[str]
    reason: str


class Settings(NamedTuple):
    """What holds for the files under one project file; ``folder`` is where that stands, None without one."""

    enabled: frozenset[str]
    fail_on: Severity
    reader: Reader
    releases: Releases
    file_ignores: tuple[FileIgnore, ...] = ()
    baseline: frozenset[Key] = frozenset()
    folder: Path | None = None
    notes: tuple[str, ...] = ()

    def fails(self, severity: Severity) -> bool:
        """Whether a finding of this severity makes the command fail."""
        return _RANKS[severity] >= _RANKS[self.fail_on]

    def ignores_in(self, path: Path) -> dict[str, str]:
        """The reasons by code for a file (absolute); a pattern is for its path in the project, or for its name."""
        found: dict[str, str] = {}
        for entry in self.file_ignores:
            if self.folder is None or not path.is_relative_to(self.folder):
                continue
            inside = path.relative_to(self.folder).as_posix()
            if fnmatch(inside, entry.pattern) or fnmatch(path.name, entry.pattern):
                found |= dict.fromkeys(entry.codes, entry.reason)
        return found


class SettingsFinder:
    """Settings by folder, each project file read once."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._by_folder: dict[Path, Settings] = {}

    def for_folder(self, folder: Path) -> Settings:
        """What holds in an absolute folder.

        Raises:
            InputError: a project file, an option or the baseline cannot be used.
        """
        if folder not in self._by_folder:
            project = _read_folder(folder)
            if project is None and folder.parent != folder:
                self._by_folder[folder] = self.for_folder(folder.parent)
            else:
                self._by_folder[folder] = _settings(self.options, project or {}, None if project is None else folder)
        return self._by_folder[folder]


def _read_folder(folder: Path) -> dict[str, Any] | None:
    if not _may_hold_settings(folder):
        return None
    from zeroconf.inputs.project import read_folder  # noqa: PLC0415  (most projects have no settings for us)

    return read_folder(folder)


def _may_hold_settings(folder: Path) -> bool:
    """Whether the folder has a project file that is worth parsing; what cannot be read is the parser's to report."""
    if os.path.exists(os.path.join(folder, "zeroconf.toml")):  # noqa: PTH110, PTH118  (start-up)
        return True
    try:
        with open(os.path.join(folder, "pyproject.toml"), "rb") as file:  # noqa: PTH118, PTH123  (start-up)
            return b"zeroconf" in file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    except OSError:
        return True


def _settings(options: Options, project: Mapping[str, Any], folder: Path | None) -> Settings:
    table = project.get("lint", {})
    reader = options.reader or project.get("for")
    releases, notes = _releases(options, project)
    return Settings(
        enabled=enabled_codes(
            select=options.select,
            ignore=options.ignore,
            project_select=table.get("select", ()),
            project_ignore=table.get("ignore", ()),
        ),
        fail_on=options.fail_on or table.get("fail_on", "error"),
        reader=Reader(reader, stated=True) if reader else Reader(),
        releases=releases,
        file_ignores=tuple(_file_ignores(table.get("per_file_ignores", {}))),
        baseline=_baseline(options, table.get("baseline"), folder),
        folder=folder,
        notes=notes,
    )


def _file_ignores(table: Mapping[str, Mapping[str, str]]) -> list[FileIgnore]:
    return [
        FileIgnore(pattern, codes_of(word)[0], reason)
        for pattern, reasons in table.items()
        for word, reason in reasons.items()
    ]


def _baseline(options: Options, project_baseline: str | None, folder: Path | None) -> frozenset[Key]:
    if not options.use_baseline:
        return frozenset()
    if options.baseline is not None:
        return read_baseline(Path(options.baseline), Path.cwd())
    if project_baseline is not None and folder is not None:
        return read_baseline(folder / project_baseline, folder)
    return frozenset()


def _releases(options: Options, project: Mapping[str, Any]) -> tuple[Releases, tuple[str, ...]]:
    newest = newest_releases()
    names = ("deepspeed_version", "accelerate_version", "python")
    deepspeed, accelerate, python = (getattr(options, name) or project.get(name) for name in names)
    if deepspeed is accelerate is python is None:
        return newest, ()
    from zeroconf.inputs.versions import find_releases  # noqa: PLC0415  (only where a release is named)

    known = {"DeepSpeed": newest.deepspeed, "Accelerate": newest.accelerate}
    found = find_releases(deepspeed, accelerate, python, newest=known, oldest=_OLDEST_CHECKED, purpose="checks against")
    releases = Releases(_padded(found[0].release), _padded(found[1].release), stated=any(one.stated for one in found))
    notes = [f"Checked against DeepSpeed {_dotted(releases.deepspeed)} and Accelerate {_dotted(releases.accelerate)}."]
    for name, release in (("DeepSpeed", releases.deepspeed), ("Accelerate", releases.accelerate)):
        if release > known[name]:
            notes.append(f"{name} is newer than {_dotted(known[name])}, the newest that zeroconf knows.")
    return releases, tuple(notes)


def _dotted(release: Release) -> str:
    return ".".join(map(str, release))


def _padded(release: Release) -> Release:
    return (*release, 0, 0)[: max(3, len(release))]
