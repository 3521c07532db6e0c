"""ZC03x: what a file asks zeroconf to ignore."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zeroconf.document.edits import Fix, remove
from zeroconf.document.ignores import Ignore, read_ignores
from zeroconf.rules.naming import named_rule, rules_begun, unknown_rule
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document
    from zeroconf.document.node import Node, Path
    from zeroconf.lint.document import Linted

_KEY = "_zeroconf"
# the last two are what generate writes (zeroconf/emit/ds_config.py, zeroconf/generated.py)
_INNER = {"ignore", "reasons", "verified"}
_MEMBER = '"_zeroconf": {"ignore": {"CODE": "the reason"}}'
_COMMENT = "# zeroconf: ignore[CODE] and the reason"
_IN_COMMENT = re.compile(r"zeroconf:\s*ignore\b")


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
    comment: `# zeroconf: ignore[ZC401] the reason`. What is written in any other form or place is not read either.

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
    yield from _misshapen(document)
    for ignore in read_ignores(document):
        if not ignore.reason:
            no_reason = f"{ignore.rule} is not ignored, since the ignore gives no reason: say why"
            yield Problem(
                no_reason if ignore.rule else f"nothing is ignored: write {_COMMENT}",
                ignore.path,
                span=(ignore.start, ignore.end),
            )


@rule("ZC031", "ignore-of-unknown-rule", severity="warning")
def ignore_of_unknown_rule(document: Document) -> Iterator[Problem]:
    """A rule is ignored that does not exist, or several are in one word.

    The ignore has no effect: a typing error, a rule that this release of zeroconf does not have, or a prefix like
    `ZC2`, which counts in options and in the project file only: a reason is about one rule. `zeroconf rule` lists
    the rules (zeroconf/rules/naming.py).

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
            several = f"{ignore.rule} stands for several rules: an ignore in a file names each by its code or name"
            message = several if rules_begun(ignore.rule) else unknown_rule(ignore.rule)
            yield Problem(message, ignore.path, span=(ignore.start, ignore.end))


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


def _misshapen(document: Document) -> Iterator[Problem]:
    """Ignores that stand where, or are written as, the kind of file does not take them."""
    if document.root is None or "zeroconf" not in document.text:
        return
    for path, holder, node in document.root.walk():
        if holder is None or holder.key != _KEY:
            continue
        if document.syntax != "json":
            yield Problem(f"in YAML nothing is ignored by {_KEY}: write {_COMMENT}", path, on_key=True)
        elif len(path) > 1:
            yield Problem(f"{_KEY} counts at the top level only, so nothing is ignored here", path, on_key=True)
        else:
            yield from _misshapen_member(node, path)
    for mark in document.marks if document.syntax == "json" else ():
        if mark.what == "comment" and _IN_COMMENT.search(document.text, mark.start, mark.end):
            yield Problem(f"in JSON nothing is ignored by a comment: write {_MEMBER}", span=(mark.start, mark.end))


def _misshapen_member(node: Node, path: Path) -> Iterator[Problem]:
    """What is wrong with a ``_zeroconf`` in its place; an ``ignore`` without reasons is told rule by rule."""
    if node.kind != "mapping":
        yield Problem(f"nothing is ignored: write {_MEMBER}", path)
    for member in node.members:
        here = (*path, member.key)
        if member.key not in _INNER:
            yield Problem(f"{_KEY} has no key {member.key}: write {_MEMBER}", here, on_key=True)
        elif member.key == "ignore" and not isinstance(member.node.value, str | list | None):
            yield Problem(f"nothing is ignored: write {_MEMBER}", here)
