"""Many files: read, linted, selected, compared with the baseline, and fixed where that is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from zeroconf.document.read import parse_document, sniff
from zeroconf.document.recognise import snake_case
from zeroconf.errors import InputError
from zeroconf.keys import key_table
from zeroconf.lint.baseline import key
from zeroconf.lint.document import Linted, Suppressed, lint_document
from zeroconf.lint.files import STDIN, find_files, read_file
from zeroconf.lint.fix import fix_document, is_faithful, whole_text
from zeroconf.lint.settings import Options, SettingsFinder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zeroconf.document.document import Document
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
    """What linting found. ``failures`` are sentences about files that could not be read or written."""

    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    num_known: int = 0
    num_fixed: int = 0
    num_files: int = 0
    fails: bool = False
    changes: tuple[Change, ...] = ()
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 nothing that fails, 1 findings, 2 files that could not be read or written."""
        return 2 if self.failures else int(self.fails)


class _Checked(NamedTuple):
    """A file's findings after selection, suppression and baseline."""

    linted: Linted
    num_known: int


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
    for done, (path, is_named) in enumerate(sources):
        if on_progress:
            on_progress(done, len(sources))
        name = stdin_name if path == STDIN else path
        settings = finder.for_folder(Path(os.path.abspath(name)).parent)  # noqa: PTH100  (links are not followed)
        quiet = only_configurations or not is_named
        reports.append(_lint_file(path, name, settings, fixing=fixing, write=write, quiet=quiet))
    return _merged(reports)


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
    cured: tuple[Finding, ...] = ()
    changes: tuple[Change, ...] = ()
    failures: tuple[str, ...] = ()
    if fixing != "none" and is_faithful(document, content):
        fixed = fix_document(document, lambda text: _check(text, settings).linted.findings, unsafe=fixing == "unsafe")
        change = Change(name, whole_text(document), whole_text(fixed.document))
        if path == STDIN or fixed.cured:
            try:
                if write and path != STDIN:
                    write(change)
                document, cured, changes = fixed.document, fixed.cured, (change,)
            except InputError as error:
                failures = (str(error),)
    if quiet and not _is_configuration(document):
        return Report(changes=changes)
    linted, num_known = _check(document, settings)
    return Report(
        findings=linted.findings,
        suppressed=linted.suppressed,
        skipped=linted.skipped,
        num_known=num_known,
        num_fixed=len(cured),
        num_files=1,
        # what was not written is not cured
        fails=any(settings.fails(one.severity) for one in (*linted.findings, *(() if write else cured))),
        changes=changes,
        failures=failures,
        notes=settings.notes,
    )


def _is_configuration(document: Document) -> bool:
    """Whether a file that nobody named is one of ours: a JSON needs more than a word of DeepSpeed's in its text."""
    if document.kind in {"unknown", "foreign", "template"}:
        return False
    if document.kind != "ds_config" or document.root is None or document.configs != ((),):
        return True
    known = key_table("deepspeed").blocks[""].keys
    return any(snake_case(member.key) in known for member in document.root.members)


def _check(document: Document, settings: Settings) -> _Checked:
    linted = lint_document(document, reader=settings.reader, releases=settings.releases)
    findings = [one for one in linted.findings if one.rule.code in settings.enabled]
    suppressed = [one for one in linted.suppressed if one.finding.rule.code in settings.enabled]
    skipped = tuple(one for one in linted.skipped if one.code is None or one.code in settings.enabled)
    reasons = settings.ignores_in(Path(os.path.abspath(document.path))) if settings.file_ignores else {}  # noqa: PTH100  (links are not followed)
    if reasons:
        suppressed += [
            Suppressed(one, reasons[one.rule.code], in_file=False) for one in findings if one.rule.code in reasons
        ]
        findings = [one for one in findings if one.rule.code not in reasons]
    if settings.baseline:
        folder = Path.cwd()
        new = [
            one for one in findings if key(document.path, one.rule.code, one.pointer, folder) not in settings.baseline
        ]
        return _Checked(Linted(tuple(new), skipped, tuple(suppressed)), len(findings) - len(new))
    return _Checked(Linted(tuple(findings), skipped, tuple(suppressed)), 0)


def _merged(reports: Sequence[Report]) -> Report:
    return Report(
        findings=tuple(one for report in reports for one in report.findings),
        suppressed=tuple(one for report in reports for one in report.suppressed),
        skipped=tuple(one for report in reports for one in report.skipped),
        num_known=sum(report.num_known for report in reports),
        num_fixed=sum(report.num_fixed for report in reports),
        num_files=sum(report.num_files for report in reports),
        fails=any(report.fails for report in reports),
        changes=tuple(one for report in reports for one in report.changes),
        failures=tuple(one for report in reports for one in report.failures),
        notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
    )
