"""Many files: read, linted, selected, compared with the baseline, and fixed where that is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from zeroconf.document.manifest import files_in_manifest
from zeroconf.document.read import parse_document, sniff
from zeroconf.document.recognise import snake_case
from zeroconf.errors import InputError
from zeroconf.keys import key_table
from zeroconf.lint.check import check
from zeroconf.lint.files import STDIN, find_files, read_file
from zeroconf.lint.fix import Fixed, fix_document, is_faithful, whole_text
from zeroconf.lint.settings import Options, SettingsFinder
from zeroconf.lint.siblings import within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zeroconf.document.document import Document
    from zeroconf.document.manifest import Part
    from zeroconf.lint.baseline import Baseline
    from zeroconf.lint.document import Suppressed
    from zeroconf.lint.settings import Settings
    from zeroconf.rules.finding import Finding, Skipped

Fixing = Literal["none", "safe", "unsafe"]
_NO_OPTIONS = Options()


class Change(NamedTuple):
    """A file's text before and after its fixes."""

    path: str
    before: str
    after: str


class Report(NamedTuple):
    """What linting found.

    ``cured`` are those that a fix took away, ``left_out`` says why a finding's fix was not applied. ``failures`` are
    sentences about files that could not be read or written.
    """

    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    num_known: int = 0
    num_files: int = 0
    fails: bool = False
    changes: tuple[Change, ...] = ()
    cured: tuple[Finding, ...] = ()
    left_out: Mapping[Finding, str] = MappingProxyType({})
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 nothing that fails, 1 findings, 2 files that could not be read or written."""
        return 2 if self.failures else int(self.fails)


def lint_files(
    paths: Sequence[str],
    options: Options = _NO_OPTIONS,
    *,
    fixing: Fixing = "none",
    write: Callable[[Change], None] | None = None,
    only_configurations: bool = False,
    stdin_name: str = "<stdin>",
    on_progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Lints files and folders, in the order given.

    ``write`` puts a fixed file in its place; without it the fixed texts are only in the report. With
    ``only_configurations`` a file that is no configuration is passed over in silence, as those in folders always are.

    Raises:
        InputError: an option, a project file or the baseline cannot be used.
    """
    finder = SettingsFinder(options)
    sources = list(find_files(paths))
    if not sources:
        finder.for_folder(Path.cwd())
    reports = []
    baselines: dict[Baseline, list[str]] = {}
    for done, (path, is_named) in enumerate(sources):
        if on_progress:
            on_progress(done, len(sources))
        name = stdin_name if path == STDIN else path
        settings = finder.for_folder(Path(os.path.abspath(name)).parent)  # noqa: PTH100  (links are not followed)
        if settings.baseline:
            baselines.setdefault(settings.baseline, []).append(name)
        quiet = only_configurations or not is_named
        reports.append(_lint_file(path, name, settings, fixing=fixing, write=write, quiet=quiet))
    report = _merged(reports)
    notes = (baseline.note(names) for baseline, names in baselines.items() if report.findings)
    return report._replace(notes=(*report.notes, *filter(None, notes)))


def _lint_file(
    path: str,
    name: str,
    settings: Settings,
    *,
    fixing: Fixing,
    write: Callable[[Change], None] | None,
    quiet: bool,
) -> Report:
    try:
        content = read_file(path)
    except InputError as error:
        return Report(failures=(str(error),))
    if quiet and path != STDIN and not sniff(content):
        return Report()
    document = parse_document(content, name)
    unchanged = Change(name, whole_text(document), whole_text(document))
    is_rewritable = fixing != "none" and is_faithful(document, content)
    changes = (unchanged,) if is_rewritable and path == STDIN else ()
    if parts := [part for part in files_in_manifest(document) if _is_configuration(part.document)]:
        return _lint_parts(parts, settings)._replace(num_files=1, changes=changes, notes=settings.notes)
    if quiet and not _is_configuration(document):
        return Report(changes=changes)
    fixed = Fixed(document, check(document, settings))
    failures: tuple[str, ...] = ()
    if is_rewritable:
        tried = fix_document(fixed, lambda text: check(text, settings), unsafe=fixing == "unsafe")
        change = unchanged._replace(after=whole_text(tried.document))
        try:
            if write and path != STDIN and tried.cured:
                write(change)
            fixed = tried
            changes = (change,) if tried.cured else changes
        except InputError as error:
            failures = (str(error),)
    linted = fixed.checked.linted
    return Report(
        findings=linted.findings,
        suppressed=linted.suppressed,
        skipped=linted.skipped,
        num_known=fixed.checked.num_known,
        num_files=1,
        # what was not written is not cured
        fails=any(settings.fails(one.severity) for one in (*linted.findings, *(() if write else fixed.cured))),
        changes=changes,
        cured=fixed.cured,
        left_out=fixed.left_out,
        failures=failures,
        notes=settings.notes,
    )


def _lint_parts(parts: Sequence[Part], settings: Settings) -> Report:
    """The findings in the files that a manifest holds, each with the others beside it; nothing in it is rewritten."""
    reports = []
    for part in parts:
        checked = check(part.document, settings, within(parts, part))
        linted = checked.linted
        report = Report(
            findings=linted.findings,
            suppressed=linted.suppressed,
            skipped=linted.skipped,
            num_known=checked.num_known,
            fails=any(settings.fails(one.severity) for one in linted.findings),
            left_out={one: "would rewrite a block of a manifest" for one in linted.findings if one.fix},
        )
        reports.append(report)
    return _merged(reports)


def _is_configuration(document: Document) -> bool:
    """Whether a file that nobody named is one of ours: a JSON needs more than a word of DeepSpeed's in its text."""
    if document.kind in {"unknown", "foreign", "template"}:
        return False
    if document.kind != "ds_config" or document.root is None or document.configs != ((),):
        return True
    known = key_table("deepspeed").blocks[""].keys
    return any(snake_case(member.key) in known for member in document.root.members)


def _merged(reports: Sequence[Report]) -> Report:
    return Report(
        findings=tuple(one for report in reports for one in report.findings),
        suppressed=tuple(one for report in reports for one in report.suppressed),
        skipped=tuple(one for report in reports for one in report.skipped),
        num_known=sum(report.num_known for report in reports),
        num_files=sum(report.num_files for report in reports),
        fails=any(report.fails for report in reports),
        changes=tuple(one for report in reports for one in report.changes),
        cured=tuple(one for report in reports for one in report.cured),
        left_out={finding: why for report in reports for finding, why in report.left_out.items()},
        failures=tuple(one for report in reports for one in report.failures),
        notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
    )
