"""Documents x rules -> findings, and what was skipped with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zeroconf.keys import newest_releases
from zeroconf.rules import RULES
from zeroconf.rules.facts import AUTO, AccelerateConfig, DsConfig, Reader
from zeroconf.rules.finding import Finding, Skipped, finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zeroconf.document.document import Document
    from zeroconf.keys import Releases
    from zeroconf.rules.registry import Rule


class Linted(NamedTuple):
    """The findings of one or more files, sorted by place, and what was not checked."""

    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]


_NO_READER = Reader()
_NO_FACTS: Mapping[str, object] = {}
# facts that a kind of file brings; without it the rule does not apply, which is no reason to report it as skipped
_OF_KIND = ("config", "accelerate", "hostfile")


def lint_document(
    document: Document,
    *,
    reader: Reader = _NO_READER,
    releases: Releases | None = None,
    facts: Mapping[str, object] = _NO_FACTS,
) -> Linted:
    """Every rule on one file; nothing is selected, ignored or suppressed yet.

    ``facts`` are what the project or the user knows beside the file (model, cluster, workload); a rule that names
    one which is missing is skipped.
    """
    if document.kind in {"template", "foreign", "unknown"}:
        return Linted((), (Skipped(document.path, None, document.note),))
    common: dict[str, object] = {"document": document, "releases": releases or newest_releases(), **facts}
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    for view in _views(document):
        given = {**common, **view, "reader": reader if reader.name else _shown_reader(document, view)}
        for rule in RULES.values():
            missing = [need for need in rule.needs if need not in given]
            if any(need in _OF_KIND for need in missing):
                continue
            if missing:
                skipped.append(Skipped(document.path, rule.code, ", ".join(missing)))
                continue
            findings += _check(rule, document, given)
    findings.sort(key=lambda one: (one.start, one.end, one.rule.code))
    return Linted(tuple(dict.fromkeys(findings)), tuple(dict.fromkeys(skipped)))


def _check(rule: Rule, document: Document, given: Mapping[str, object]) -> Iterator[Finding]:
    for problem in rule.check(*(given[need] for need in rule.needs)):
        yield finding(document, rule, problem)


def _views(document: Document) -> list[dict[str, object]]:
    """The facts of the file's kind: one set for each DeepSpeed block, so that a rule sees one at a time."""
    root = document.root
    if document.kind == "hostfile":
        return [{"hostfile": document}]
    if root is None:
        return [{}]
    if document.kind == "accelerate":
        return [{"accelerate": AccelerateConfig(document, root)}]
    nodes = ((path, root.at(path)) for path in document.configs)
    return [{"config": DsConfig(document, node, path)} for path, node in nodes if node]


def _shown_reader(document: Document, view: Mapping[str, object]) -> Reader:
    """The reader that the content gives away: Accelerate's own YAML, or an "auto", which only its fillers know."""
    if document.kind == "accelerate":
        return Reader("accelerate")
    config = view.get("config")
    if isinstance(config, DsConfig) and any(node.value == AUTO for _, _, node in config.root.walk()):
        return Reader("trainer")
    return _NO_READER
