"""Documents x rules -> findings, and what was skipped with the reason."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from zeroconf.keys import key_table, newest_releases
from zeroconf.lint.known import facts_of
from zeroconf.lint.named import hosts_of, launch_of, named_by
from zeroconf.rules import RULES
from zeroconf.rules.facts import AUTO, AccelerateConfig, DsConfig, Reader
from zeroconf.rules.finding import Finding, Skipped, finding
from zeroconf.rules.keys.walk import walk
from zeroconf.rules.launch import Launch
from zeroconf.rules.text.suppressions import effective_ignores

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zeroconf.document.document import Document
    from zeroconf.document.ignores import Ignore
    from zeroconf.document.node import Node, Path
    from zeroconf.keys import Release, Releases
    from zeroconf.lint.known import Known
    from zeroconf.lint.siblings import Siblings
    from zeroconf.rules.registry import Rule


class Suppressed(NamedTuple):
    """A finding that its file, or with ``in_file`` False the project file, ignores, with the reason given."""

    finding: Finding
    reason: str
    in_file: bool = True


class Linted(NamedTuple):
    """The findings of one file, sorted by place, what was not checked, and what the file itself ignores."""

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    suppressed: tuple[Suppressed, ...] = ()

    def ignored_by(self, code: str, ignore: Ignore) -> Iterator[Finding]:
        """The findings of a rule on the line, or in the file, that an ignore is about."""
        among = self.findings
        if among and ignore.line is not None:
            start, end = among[0].document.line_span(ignore.line)
            among = among[bisect_left(among, start, key=_START) : bisect_left(among, end, key=_START)]
        yield from (one for one in among if one.rule.code == code)


_START = attrgetter("start")
_NO_READER = Reader()


def lint_document(
    document: Document,
    *,
    reader: Reader = _NO_READER,
    releases: Releases | None = None,
    known: Known | None = None,
    siblings: Siblings | None = None,
) -> Linted:
    """Every rule on one file, with what the file itself ignores set apart; nothing is selected yet.

    ``known`` is what the project or the user knows beside the file (model, cluster, workload); a rule that names
    a fact which is missing is skipped. ``siblings`` reads the files that this one names.
    """
    if document.kind in {"template", "foreign", "unknown"}:
        return Linted((), (Skipped(document.path, None, document.note),))
    releases = releases or newest_releases()
    options = known.options if known else {}
    common: dict[str, object] = {"document": document, "releases": releases, "options": options}
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    for view in _views(document, siblings):
        who = reader if reader.name else _shown_reader(document, view)
        named, why = _named(view, releases, siblings)
        plan = view.get("config") or view.get("accelerate") or view.get("launch")
        facts, needed = facts_of(known, plan, named.get("named"), who)
        needed = {**needed, **why}
        given = {**common, **view, **facts, **named, "reader": who}
        for rule in _rules(document):
            missing = [need for need in rule.needs if need not in given]
            if not missing:
                findings += _check(rule, document, given)
            elif all(need in needed for need in missing):
                skipped.append(Skipped(document.path, rule.code, needed[missing[-1]]))
        if isinstance(config := view.get("config"), DsConfig):
            findings = _without_unread(findings, config, releases.deepspeed)
    findings = _without_waiting(findings)
    linted = _sorted(findings, skipped)
    # rules about the findings come when these are complete
    about = (rule for rule in RULES.values() if "linted" in rule.needs)
    findings += [one for rule in about for one in _check(rule, document, {**common, "linted": linted})]
    return _suppressed(_sorted(findings, skipped), effective_ignores(document))


_ABOUT_IGNORES = "ZC03"


def _rules(document: Document) -> Iterable[Rule]:
    """The rules that may apply: those about a document's text and values know nothing of the shell."""
    if document.kind != "script":
        return RULES.values()
    return [rule for rule in RULES.values() if "document" not in rule.needs or rule.code.startswith(_ABOUT_IGNORES)]


_ABOUT_EFFECTS = ("ZC2", "ZC6")


def _without_unread(findings: list[Finding], config: DsConfig, release: Release) -> list[Finding]:
    """Less those about what a key does that the release does not know yet, which a finding of its own says."""
    unread = {seen.path for seen in walk(config, release).too_new}
    if not unread:
        return findings
    return [
        one for one in findings if not (one.rule.code.startswith(_ABOUT_EFFECTS) and _begins_with_one(one.path, unread))
    ]


def _begins_with_one(path: Path, starts: set[Path]) -> bool:
    return any(path[:end] in starts for end in range(1, len(path) + 1))


_WEIGHT = {"info": 0, "warning": 1, "error": 2}


def _without_waiting(findings: list[Finding]) -> list[Finding]:
    """Less those about a missing key that another finding, as severe at least, calls mistyped or misplaced."""
    made: dict[Path | None, int] = {}
    for one in findings:
        if one.fix and one.fix.makes is not None:
            made[one.fix.makes] = max(_WEIGHT[one.severity], made.get(one.fix.makes, 0))
    return [one for one in findings if all(made.get(path, -1) < _WEIGHT[one.severity] for path in one.lacks)]


def _sorted(findings: list[Finding], skipped: list[Skipped]) -> Linted:
    """Each once, the findings by place."""
    ordered = sorted(findings, key=lambda one: (one.start, one.end, one.rule.code))
    return Linted(tuple(dict.fromkeys(ordered)), tuple(dict.fromkeys(skipped)))


def _suppressed(linted: Linted, ignores: Iterable[tuple[str, Ignore]]) -> Linted:
    """The same with the findings that the file ignores set apart."""
    reasons = {one: ignore.reason for code, ignore in ignores for one in linted.ignored_by(code, ignore)}
    if not reasons:
        return linted
    kept = tuple(one for one in linted.findings if one not in reasons)
    suppressed = tuple(Suppressed(one, reasons[one]) for one in linted.findings if one in reasons)
    return Linted(kept, linted.skipped, suppressed)


def _check(rule: Rule, document: Document, given: Mapping[str, object]) -> Iterator[Finding]:
    for problem in rule.check(*(given[need] for need in rule.needs)):
        yield finding(document, rule, problem)


def _named(
    view: Mapping[str, Any], releases: Releases, siblings: Siblings | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """The ds_config.json and the hostfile that the file names, or why they are not known."""
    naming = view.get("accelerate") or view.get("launch")
    if naming is None:
        return {}, {}

    def errors(config: DsConfig) -> tuple[str, ...]:
        shown = _shown_reader(config.document, {"config": config})
        reader = Reader(shown.name or "accelerate", stated=True)
        findings = lint_document(config.document, reader=reader, releases=releases).findings
        return tuple(one.message for one in findings if one.severity == "error")

    named, why = named_by(naming, siblings, errors)
    hosts, no_hosts = hosts_of(naming, siblings) if isinstance(naming, Launch) else ({}, {})
    return ({"named": named} if named else {}) | hosts, ({"named": why} if why else {}) | no_hosts


def _views(document: Document, siblings: Siblings | None) -> list[dict[str, Any]]:
    """The facts of the file's kind: one set for each DeepSpeed block, so that a rule sees one at a time."""
    root = document.root
    if document.kind == "hostfile":
        return [{"hostfile": document}]
    if root is None:
        return [{}]
    if document.kind == "accelerate":
        return [{"accelerate": AccelerateConfig(document, root)}]
    if document.kind == "script":
        return [{"launch": launch_of(document, node, index, siblings)} for index, node in enumerate(root.items)]
    nodes = ((path, root.at(path)) for path in document.configs)
    return [{"config": DsConfig(document, node, path)} for path, node in nodes if node]


def _shown_reader(document: Document, view: Mapping[str, object]) -> Reader:
    """The reader that the content gives away: Accelerate's own YAML, or an "auto" that only the Trainer fills."""
    if document.kind == "accelerate":
        return Reader("accelerate")
    config = view.get("config")
    if isinstance(config, DsConfig) and any(_is_for_trainer(path, node) for path, _, node in config.root.walk()):
        return Reader("trainer")
    return _NO_READER


def _is_for_trainer(path: Path, node: Node) -> bool:
    """Whether the value is an "auto" that DeepSpeed does not know itself, as it does some."""
    if node.value != AUTO or not path:
        return False
    key = key_table("deepspeed").key(*map(str, path))
    return key is None or key.default != AUTO
