"""ZC03x: what a file asks zeroconf to ignore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document.edits import Fix, remove
from zeroconf.document.ignores import Ignore, read_ignores
from zeroconf.rules.registry import RULES, Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document
    from zeroconf.lint.document import Linted


def named_rule(written: str) -> str | None:
    """The code of the rule with this code or name, in any case; None when there is none."""
    if written.upper() in RULES:
        return written.upper()
    return next((rule.code for rule in RULES.values() if rule.name == written.lower()), None)


def effective_ignores(document: Document) -> Iterator[tuple[str, Ignore]]:
    """The ignores that count: those of a known rule, with a reason; each with the rule's code."""
    for ignore in read_ignores(document):
        code = named_rule(ignore.rule)
        if code and ignore.reason:
            yield code, ignore


@rule("ZC030", "ignore-without-reason", severity="warning")
def ignore_without_reason(document: Document) -> Iterator[Problem]:
    """A rule is ignored without a reason.

    Whoever reads the file next cannot tell a decision from an oversight, so an ignore without a reason does not
    count, and the finding stays. In JSON the reason is the value (`_zeroconf` is a key that DeepSpeed, Accelerate
    and Transformers do not read: DeepSpeed's runtime/config.py asks for its keys by name); in YAML it follows the
    comment: `# zeroconf: ignore[ZC401] the reason`.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}},
         "_zeroconf": {"ignore": {"ZC240": ""}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}},
         "_zeroconf": {"ignore": {"ZC240": "stage 3 comes with the next model"}}}
        ```
    """
    for ignore in read_ignores(document):
        if not ignore.reason:
            no_reason = f"{ignore.rule} is not ignored, since the ignore gives no reason: say why"
            yield Problem(
                no_reason if ignore.rule else "nothing is ignored: write # zeroconf: ignore[CODE] and the reason",
                ignore.path,
                span=(ignore.start, ignore.end),
            )


@rule("ZC031", "ignore-of-unknown-rule", severity="warning")
def ignore_of_unknown_rule(document: Document) -> Iterator[Problem]:
    """A rule is ignored that does not exist.

    The ignore has no effect: a typing error, or a rule that this release of zeroconf does not have. `zeroconf rule`
    lists the rules (zeroconf/rules/registry.py).

    Example:
        ```json
        {"train_batch_size": 8, "_zeroconf": {"ignore": {"ZC2400": "stage 3 comes with the next model"}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "_zeroconf": {"ignore": {"ZC240": "stage 3 comes with the next model"}}}
        ```
    """
    for ignore in read_ignores(document):
        if ignore.rule and named_rule(ignore.rule) is None:
            yield Problem(
                f"there is no rule {ignore.rule}{_nearest(ignore.rule)}", ignore.path, span=(ignore.start, ignore.end)
            )


@rule("ZC032", "unused-ignore", severity="info")
def unused_ignore(document: Document, linted: Linted) -> Iterator[Problem]:
    """A rule is ignored that finds nothing here.

    The file was cured, or another reader or release is checked; an ignore that stays hides the next real finding.
    A rule that could not be checked because its facts are missing is not reported (zeroconf/lint/document.py).

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}},
         "_zeroconf": {"ignore": {"ZC240": "stage 3 comes with the next model"}}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
        ```
    """
    unchecked = {skipped.code for skipped in linted.skipped}
    for code, ignore in effective_ignores(document):
        if code not in {"ZC032", *unchecked} and not any(linted.ignored_by(code, ignore)):
            edits = remove(document, ignore.path) if ignore.path else ()
            fix = Fix("remove the ignore", edits, safe=False) if edits else None
            yield Problem(
                f"{ignore.rule} is ignored, but finds nothing here: remove the ignore",
                ignore.path,
                fix=fix,
                span=(ignore.start, ignore.end),
            )


def _nearest(written: str) -> str:
    import difflib  # noqa: PLC0415  (only mistakes need it)

    known = [*RULES, *(rule.name for rule in RULES.values())]
    near = difflib.get_close_matches(written, known, n=2, cutoff=0.6)
    return f" (nearest: {', '.join(near)})" if near else ""
