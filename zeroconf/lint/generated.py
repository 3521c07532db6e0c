"""What ``generate`` wrote, checked as a user's file would be: by the published schemas and by every rule."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zeroconf.document.edits import apply
from zeroconf.document.read import parse_document
from zeroconf.errors import InputError, OutputError
from zeroconf.lint.document import lint_document
from zeroconf.lint.siblings import among
from zeroconf.resources import data_path
from zeroconf.rules.facts import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.document.document import Document
    from zeroconf.keys import Releases
    from zeroconf.lint.known import Known
    from zeroconf.rules.finding import Finding

# keys that only another stage reads, ZeRO++ below stage 3 and where it saves nothing, switches of the gradients' path
_OF_THE_STAGE = frozenset({"ZC110", "ZC251", "ZC259", "ZC408"})
_SCHEMAS = {"ds_config": "schemas/ds_config.schema.json", "accelerate": "schemas/accelerate.schema.json"}


def check_generated(
    path: str,
    files: Mapping[str, str],
    reader: Reader,
    releases: Releases,
    known: Known,
    *,
    base: str | None = None,
) -> tuple[str, ...]:
    """What the linter warns of in one of the generated files, as sentences; a known-bad release, for one.

    ``known`` holds the facts that it was made under, ``base`` is the path of the user's file that it was made from.

    Raises:
        OutputError: the schema or a rule calls the file wrong. It must not be written.
        InputError: a rule does so of a file with a base: what the plan keeps is wrong. A base may have keys of its own.
    """
    document, findings = _linted(files[path], reader, releases, known, files)
    problems = [one.message for one in findings if one.severity == "error"]
    if problems and base is not None:
        msg = f"{base} has a fault that a plan does not mend: {problems[0]}; see zeroconf lint {base}"
        raise InputError(msg)
    if base is None:
        problems = [*_schema_problems(document), *problems]
    if problems:
        msg = f"zeroconf made a faulty {path} ({problems[0]}); nothing was written, please report the command"
        raise OutputError(msg)
    return tuple(f"{path}: {one.message} ({one.rule.code})" for one in findings if one.severity == "warning")


def fitted_to_stage(config: Mapping[str, Any], reader: Reader, releases: Releases, known: Known) -> dict[str, Any]:
    """A base file with a plan in it, without the base's keys that have no effect at the plan's stage or do harm there.

    The cures are the linter's own; what the base ignores with a reason stays.
    """
    text = json.dumps(config)
    while True:
        document, findings = _linted(text, reader, releases, known, {})
        cures = (one.fix.edits for one in findings if one.rule.code in _OF_THE_STAGE and one.fix and one.fix.edits)
        edits = next(cures, None)
        if edits is None:
            return dict(json.loads(text))
        text = apply(document.text, edits)


def rules_broken(text: str, reader: Reader, releases: Releases, known: Known) -> frozenset[str]:
    """The codes of all findings in a generated file, of any severity."""
    return frozenset(one.rule.code for one in _linted(text, reader, releases, known, {})[1])


def errors_in(text: str, reader: Reader, releases: Releases, known: Known) -> tuple[str, ...]:
    """The messages of all errors in a generated file."""
    findings = _linted(text, reader, releases, known, {})[1]
    return tuple(one.message for one in findings if one.severity == "error")


def _linted(
    text: str, reader: Reader, releases: Releases, known: Known | None, files: Mapping[str, str]
) -> tuple[Document, tuple[Finding, ...]]:
    # by its content: the user may have called it anything
    name = "ds_config.json" if text.startswith("{") else "launch.sh" if text.startswith("#!") else "accelerate.yaml"
    document = parse_document(text.encode(), name)
    if document.kind == "accelerate":
        reader = Reader("accelerate", stated=True)
    linted = lint_document(document, reader=reader, releases=releases, known=known, siblings=among(files))
    return document, linted.findings


def _schema_problems(document: Document) -> list[str]:
    from jsonschema import Draft202012Validator  # noqa: PLC0415  (slow to import, and the linter does not need it)

    if document.root is None:
        return ["not readable"]
    if document.kind == "script":
        return []
    schema = json.loads(data_path(_SCHEMAS[document.kind]).read_bytes())
    errors = Draft202012Validator(schema).iter_errors(document.root.plain())
    # the schema is the newest release's and refuses removed keys whatever they say; this one's are ZC105's to judge
    return [error.message for error in errors if (error.validator, *error.validator_value) != ("not", "description")]
