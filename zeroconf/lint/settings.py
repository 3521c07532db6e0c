"""What holds for a linted file: the command line's options over those of the nearest project file above it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from zeroconf.errors import InputError
from zeroconf.keys import Release, Releases, last_until, newest_releases
from zeroconf.lint.baseline import Baseline, read_baseline
from zeroconf.lint.known import Known
from zeroconf.lint.patterns import Pattern, read_pattern
from zeroconf.lint.selection import codes_of, enabled_codes
from zeroconf.rules.facts import Reader
from zeroconf.units import release_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zeroconf.choices import Reader as ReaderName
    from zeroconf.rules.registry import Severity

_BASIS = {"model", "hardware"}
_FACTS = (*_BASIS, "micro_batch_size", "global_batch_size", "gradient_accumulation")
_RANKS = {"info": 0, "warning": 1, "error": 2}
# what the rules were written for; older releases differ in more than they say
_OLDEST_CHECKED = {"DeepSpeed": (0, 9, 0), "Accelerate": (0, 20, 0)}


class Options(NamedTuple):
    """What the command line, or the caller of ``api.lint``, says; None and empty: not said.

    ``facts`` are model, hardware and workload, by the names of the command line's options with underscores.
    """

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    fail_on: Severity | None = None
    reader: ReaderName | None = None
    deepspeed_version: str | None = None
    accelerate_version: str | None = None
    python: str | None = None
    baseline: str | None = None
    use_baseline: bool = True
    facts: Mapping[str, Any] = MappingProxyType({})


class FileIgnore(NamedTuple):
    """Rules that the project file ignores in the files of a pattern, with the reason."""

    pattern: Pattern
    codes: frozenset[str]
    reason: str


class Settings(NamedTuple):
    """What holds for the files under one project file; ``folder`` is where that stands, None without one."""

    enabled: frozenset[str]
    fail_on: Severity
    reader: Reader
    releases: Releases
    file_ignores: tuple[FileIgnore, ...] = ()
    baseline: Baseline | None = None
    folder: Path | None = None
    known: Known | None = None
    notes: tuple[str, ...] = ()

    def fails(self, severity: Severity) -> bool:
        """Whether a finding of this severity makes the command fail."""
        return _RANKS[severity] >= _RANKS[self.fail_on]

    def ignores_in(self, path: Path) -> dict[str, str]:
        """The reasons by code for a file (absolute)."""
        found: dict[str, str] = {}
        for entry in self.file_ignores:
            if self.folder is None or not path.is_relative_to(self.folder):
                continue
            inside = path.relative_to(self.folder).as_posix()
            if entry.pattern.matches(inside):
                found |= dict.fromkeys(entry.codes, entry.reason)
        return found


class _Project(NamedTuple):
    """A project file, its settings, and its path for messages; nothing of it without one."""

    file: Path | None
    values: Mapping[str, Any]
    name: str = ""

    @property
    def lint(self) -> Mapping[str, Any]:
        """The linter's own table."""
        table: Mapping[str, Any] = self.values.get("lint", {})
        return table

    @contextlib.contextmanager
    def blamed(self, *keys: str) -> Iterator[None]:
        """Puts the file and the keys before what is wrong with their values."""
        with _blamed(self.at(*keys)):
            yield

    def at(self, *keys: str) -> str:
        """The file and the keys, for a message."""
        return ": ".join(filter(None, (self.name, ", ".join(map(repr, keys)))))


_NO_PROJECT = _Project(None, {})


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
                self._by_folder[folder] = _settings(self.options, project or _NO_PROJECT)
        return self._by_folder[folder]


def _read_folder(folder: Path) -> _Project | None:
    if not _may_hold_settings(folder):
        return None
    from zeroconf.inputs.project import read_folder  # noqa: PLC0415  (most projects have no settings for us)
    from zeroconf.inputs.text import shown_path  # noqa: PLC0415  (as above)

    found = read_folder(folder)
    return _Project(*found, shown_path(found[0])) if found else None


def _may_hold_settings(folder: Path) -> bool:
    """Whether the folder has a project file that is worth parsing; what cannot be read is the parser's to report."""
    if os.path.lexists(os.path.join(folder, "zeroconf.toml")):  # noqa: PTH118  (start-up)
        return True
    shared = os.path.join(folder, "pyproject.toml")  # noqa: PTH118  (as above)
    if not os.path.isfile(shared):  # noqa: PTH113  (as above)
        return False
    try:
        with open(shared, "rb") as file:  # noqa: PTH123  (as above)
            return b"zeroconf" in file.read()
    except OSError:
        return True


def _settings(options: Options, project: _Project) -> Settings:
    table = project.lint
    reader = options.reader or project.values.get("for")
    releases, notes = _releases(options, project)
    file_ignores = tuple(_file_ignores(project))
    flaws = {one.pattern.written: one.pattern.flaw for one in file_ignores if one.pattern.flaw}
    notes += tuple(f"{project.name}: '{written}' matches no file: {flaw}." for written, flaw in flaws.items())
    return Settings(
        enabled=_enabled(options, project),
        fail_on=options.fail_on or table.get("fail_on", "error"),
        reader=Reader(reader, stated=True) if reader else Reader(),
        releases=releases,
        file_ignores=file_ignores,
        baseline=_baseline(options, project),
        folder=project.file.parent if project.file else None,
        known=_known(options, project, releases),
        notes=notes,
    )


def _known(options: Options, project: _Project, releases: Releases) -> Known | None:
    """The facts beside the files; None where no model, hardware or batch is named, and nothing is read."""
    given = {name: value for name, value in options.facts.items() if value is not None}
    if not any(given.get(name) or project.values.get(name) for name in _FACTS):
        return None
    from zeroconf.inputs.project import beside  # noqa: PLC0415  (most files are linted without facts)

    settings = beside(project.values, given)
    try:
        return Known(settings, releases, lenient=not given)
    except InputError as error:
        keys = _to_blame(settings, project.values.keys() - given.keys(), releases)
        if given and not keys:
            raise
        msg = f"{project.at(*keys)}: {error}"
        raise InputError(msg) from error


def _to_blame(settings: Mapping[str, Any], keys: Iterable[str], releases: Releases) -> list[str]:
    """The keys without any one of which the settings can be read; or model and hardware, if they cannot alone."""

    def is_readable(some: Mapping[str, Any]) -> bool:
        try:
            Known(some, releases, lenient=True)
        except InputError:
            return False
        return True

    details = sorted(set(keys) - _BASIS)
    found = [key for key in details if is_readable({name: settings[name] for name in settings if name != key})]
    found = found or [key for key in sorted(_BASIS.intersection(keys)) if not is_readable({key: settings[key]})]
    return [key.replace("_", "-") for key in found]


def _enabled(options: Options, project: _Project) -> frozenset[str]:
    """The codes that count; each list of words is read alone first, so that it can be blamed."""
    for name in ("select", "ignore"):
        with _blamed(f"--{name}"):
            enabled_codes(select=getattr(options, name))
        with project.blamed(f"lint.{name}"):
            enabled_codes(select=project.lint.get(name, ()))
    with project.blamed("lint.select"):
        if project.lint.get("select") == []:
            msg = "it lists no rule; leave it out to check every rule"
            raise InputError(msg)
    return enabled_codes(
        select=options.select,
        ignore=options.ignore,
        project_select=project.lint.get("select", ()),
        project_ignore=project.lint.get("ignore", ()),
    )


@contextlib.contextmanager
def _blamed(where: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        msg = f"{where}: {error}"
        raise InputError(msg) from error


def _file_ignores(project: _Project) -> list[FileIgnore]:
    if project.file is None:
        return []
    folder = project.file.parent
    with project.blamed("lint.per-file-ignores"):
        return [
            FileIgnore(read_pattern(pattern, folder), codes_of(word)[0], reason)
            for pattern, reasons in project.lint.get("per_file_ignores", {}).items()
            for word, reason in reasons.items()
        ]


def _baseline(options: Options, project: _Project) -> Baseline | None:
    if options.baseline is not None and not options.use_baseline:
        msg = "--baseline and --no-baseline exclude each other; leave out one of the two"
        raise InputError(msg)
    if options.baseline is not None:
        return read_baseline(Path(options.baseline), Path.cwd())
    written = project.lint.get("baseline") if options.use_baseline else None
    if written is None or project.file is None:
        return None
    with project.blamed("lint.baseline"):
        return read_baseline(project.file.parent / written, project.file.parent)


def _releases(options: Options, project: _Project) -> tuple[Releases, tuple[str, ...]]:
    newest = newest_releases()
    names = ("deepspeed_version", "accelerate_version", "python")
    given = {name: getattr(options, name) for name in names}
    ours = [name for name in names if given[name] is None and name in project.values]
    given |= {name: project.values[name] for name in ours}
    asked = [given[name] for name in names]
    if asked == [None, None, None]:
        return newest, ()
    from zeroconf.inputs.versions import find_releases  # noqa: PLC0415  (only where a release is named)

    known = {"DeepSpeed": newest.deepspeed, "Accelerate": newest.accelerate}
    keys = [name.replace("_", "-") for name in ours]
    with project.blamed(*keys) if keys else contextlib.nullcontext():
        found = find_releases(*asked, newest=known, oldest=_OLDEST_CHECKED, purpose="checks against")
    named = _padded(found[0].release)
    deepspeed = last_until(named)
    releases = Releases(deepspeed, _padded(found[1].release), stated=any(one.stated for one in found))
    notes = []
    if deepspeed != named:
        notes.append(
            f"DeepSpeed {release_text(named)} is not a release that zeroconf knows; "
            f"checked as {release_text(deepspeed)}."
        )
    against = f"DeepSpeed {release_text(releases.deepspeed)} and Accelerate {release_text(releases.accelerate)}"
    notes.append(f"Checked against {against}.")
    for name, release in (("DeepSpeed", releases.deepspeed), ("Accelerate", releases.accelerate)):
        if release > known[name]:
            notes.append(f"{name} is newer than {release_text(known[name])}, the newest that zeroconf knows.")
    return releases, tuple(notes)


def _padded(release: Release) -> Release:
    return (*release, 0, 0)[: max(3, len(release))]
