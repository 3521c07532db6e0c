"""ZC001 to ZC014: the text itself, before any key means something."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zeroconf.document.edits import Fix, remove_member
from zeroconf.document.holders import repeated_members
from zeroconf.document.python import json_of_dict
from zeroconf.keys import key_table
from zeroconf.rules.registry import Problem, Severity, rule
from zeroconf.rules.text.fixes import as_json, python_word, quoted
from zeroconf.rules.text.known import block_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document, Mark
    from zeroconf.rules.facts import Reader

_DIALECT = {
    "comment": "comment",
    "trailing-comma": "trailing comma",
    "missing-comma": "missing comma",
    "unquoted-key": "key without quotes",
    "unquoted-string": "text without quotes",
    "single-quotes": "text in single quotes",
    "multiline-string": "text in triple quotes",
    "missing-braces": "root without braces",
}
_TYPOGRAPHIC = "\u2018\u2019\u201c\u201d\u00ab\u00bb"
_STRICT = "Accelerate and the Trainer (json.load)"


def _marks(document: Document, *kinds: str) -> list[Mark]:
    return [mark for mark in document.marks if mark.what in kinds]


@rule("ZC001", "syntax-error", severity="error")
def syntax_error(document: Document) -> Iterator[Problem]:
    """The file cannot be read.

    DeepSpeed reads its configuration as HJSON (runtime/config.py, DeepSpeedConfig), Accelerate and the Trainer
    read it with json.load (accelerate/utils/deepspeed.py, HfDeepSpeedConfig), Accelerate reads its own YAML with
    yaml.safe_load (commands/config/config_args.py). This text is refused by all of them.

    Example:
        ```json
        {"train_batch_size": 8 "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
        ```
    """
    if document.syntax == "hostfile":
        return
    for mark in _marks(document, "syntax", "empty"):
        yield Problem(mark.detail, mark.path, span=(mark.start, mark.end))


@rule("ZC002", "hjson-only-syntax", severity="error")
def hjson_only_syntax(document: Document, reader: Reader) -> Iterator[Problem]:
    """Comments, trailing commas or missing quotes, which only DeepSpeed's own reader takes.

    DeepSpeed opens a path with the hjson package (runtime/config.py, DeepSpeedConfig). Accelerate and the Trainer
    open the same file with json.load and stop with a JSONDecodeError (accelerate/utils/deepspeed.py,
    HfDeepSpeedConfig). A file with "auto" in it is meant for them.

    Example:
        ```json
        {
          // filled in by the Trainer
          "train_batch_size": "auto",
          "zero_optimization": {"stage": 2},
        }
        ```

    Use instead:
        ```json
        {
          "train_batch_size": "auto",
          "zero_optimization": {"stage": 2}
        }
        ```
    """
    marks = _marks(document, *_DIALECT)
    if document.syntax != "json" or document.root is None or not marks or reader.name == "deepspeed":
        return
    counts = Counter(_DIALECT[mark.what] for mark in marks)
    found = ", ".join(f"{count} x {words}" if count > 1 else words for words, count in counts.items())
    severity: Severity = "error" if reader.strict_json else "info"
    message = f"not plain JSON ({found}): DeepSpeed (hjson) reads it, {_STRICT} do not"
    # a comment is lost, so removing one is for the author to decide
    lost = "comment" in counts
    title = "Write plain JSON, without the comments" if lost else "Write plain JSON"
    fix = Fix(title, as_json(document, marks), safe=not lost)
    yield Problem(message, marks[0].path, severity=severity, span=(marks[0].start, marks[0].end), fix=fix)


@rule("ZC003", "unquoted-text-to-line-end", severity="error")
def unquoted_text_to_line_end(document: Document) -> Iterator[Problem]:
    """Text without quotes takes in all that stands behind it on its line.

    HJSON ends such a text at the line's end, not at the comma (the hjson package, decoder.py, scantfnns), and
    DeepSpeed reads its configuration with it: the comma becomes part of the value.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {
          "device": cpu,
          "pin_memory": true
        }}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {
          "device": "cpu",
          "pin_memory": true
        }}}
        ```
    """
    for mark in _marks(document, "unquoted-string"):
        if mark.detail.endswith((",", ";")) or any(sign in '"{}[]' for sign in mark.detail):
            fix = Fix("Put the text in quotes", quoted(mark), safe=False) if mark.detail.endswith(",") else None
            message = f"without quotes the value is all of '{_short(mark.detail)}', up to the end of the line"
            yield Problem(message, mark.path, span=(mark.start, mark.end), fix=fix)
    for mark in _marks(document, "unquoted-key"):
        if any(sign in _TYPOGRAPHIC for sign in mark.detail):
            message = f"typographic quotes are part of the key for DeepSpeed: {_short(mark.detail)}"
            yield Problem(message, mark.path, span=(mark.start, mark.end))


@rule("ZC004", "python-literal", severity="error")
def python_literal(document: Document, reader: Reader) -> Iterator[Problem]:
    """Python's words or quotes: True, False, None, or a whole dict as Python prints it.

    json.load refuses them. DeepSpeed's hjson takes them for text (its decoder.py, scantfnns), with the comma that
    follows: "True," is no boolean, and a False at the top level is text that counts as true (runtime/config.py,
    get_scalar_param). Alone on its line, in a block that is checked by pydantic, True still comes out right. A dict
    printed by Python, {'fp16': {'enabled': True}}, is one finding.

    Example:
        ```json
        {"train_batch_size": 8,
         "prescale_gradients": False,
         "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8,
         "prescale_gradients": false,
         "zero_optimization": {"stage": 2}}
        ```
    """
    for mark in _marks(document, "python-dict"):
        edits = json_of_dict(document.text)
        lost = "comment" in mark.detail
        fix = Fix("Write JSON, without the comments" if lost else "Write JSON", edits, safe=not lost) if edits else None
        yield Problem(mark.detail, mark.path, span=(mark.start, mark.end), fix=fix)
    for mark in _marks(document, "python-literal"):
        written = document.text[mark.start : mark.end]
        word = written.rstrip(",")
        block = block_at(key_table("deepspeed"), mark.path[:-1])
        is_checked = block is not None and block.unknown == "rejected"
        comes_out_right = written == "True" or (written == "False" and is_checked)
        is_read = comes_out_right and not reader.strict_json and document.root is not None
        message = f"{word} is Python: JSON writes {python_word(word)}"
        if document.root is not None:
            message += f"; DeepSpeed's hjson makes the text '{written}' of it"
        severity: Severity = "warning" if is_read else "error"
        fix = Fix(f"Write {python_word(word)}", quoted(mark, python_word(word)))
        yield Problem(message, mark.path, severity=severity, span=(mark.start, mark.end), fix=fix)


@rule("ZC005", "duplicate-key", severity="error")
def duplicate_key(document: Document, reader: Reader) -> Iterator[Problem]:
    """A key stands twice in one block.

    DeepSpeed refuses the file: "Duplicate keys in DeepSpeed config" (runtime/config_utils.py,
    dict_raise_error_on_duplicate_keys). json.load and yaml.safe_load keep the last one and drop the others without
    a word (accelerate/utils/deepspeed.py, HfDeepSpeedConfig).

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "zero_optimization": {"stage": 3}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
        ```
    """
    if document.root is None or document.syntax == "hostfile":
        return
    is_refused = document.syntax == "json" and not reader.fills_auto
    for mark, holder, before, later in repeated_members(document):
        line, _ = document.position(before.start)
        is_same = before.node.plain() == later.node.plain()
        tail = "DeepSpeed refuses the file" if is_refused else "only the last one counts"
        fix = Fix("Remove the earlier one", remove_member(document, holder, before), safe=is_same)
        severity: Severity = "warning" if is_same and not (is_refused and reader.name) else "error"
        message = f"'{_short(mark.detail)}' stands here and on line {line}: {tail}"
        yield Problem(message, mark.path, severity=severity, span=(mark.start, mark.end), fix=fix)


@rule("ZC006", "not-plain-utf-8", severity="error")
def not_plain_utf_8(document: Document, reader: Reader) -> Iterator[Problem]:
    """The file is not plain UTF-8: it has a byte order mark, or other bytes.

    Python opens it as UTF-8 and stops with a UnicodeDecodeError. A UTF-8 byte order mark, which some Windows
    editors write, is refused by json.load (Accelerate and the Trainer: accelerate/utils/deepspeed.py), becomes part
    of the first host's name in a hostfile (deepspeed/launcher/runner.py, fetch_hostfile), and is skipped by hjson
    and by YAML 1.1.

    Example:
        ```json
        \ufeff{"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json
        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
        ```
    """
    for mark in _marks(document, "encoding"):
        yield Problem(f"not UTF-8 ({mark.detail}): save the file as UTF-8", span=(mark.start, mark.end))
    if not document.has_bom or document.syntax == "yaml" or (document.syntax == "json" and reader.name == "deepspeed"):
        return
    severity: Severity = "error" if reader.strict_json or document.syntax == "hostfile" else "info"
    harm = "the first host's name starts with it" if document.syntax == "hostfile" else f"{_STRICT} refuse it"
    message = f"a byte order mark before the text: {harm}; save the file as UTF-8 without one"
    yield Problem(message, severity=severity, span=(0, 0))


@rule("ZC007", "nested-too-deep", severity="error", confidence="medium")
def nested_too_deep(document: Document, reader: Reader) -> Iterator[Problem]:
    """Blocks nest, or aliases refer, without a sensible end.

    From about 485 levels on, less the calls that the script is in, what reads a configuration stops with a
    RecursionError: hjson (its decoder.py), with which DeepSpeed opens a path; copy.deepcopy, with which Accelerate
    copies what json read, for the Trainer too (accelerate/utils/dataclasses.py, DeepSpeedPlugin); and PyYAML. Python's
    json alone would take twice as many.

    Example:
        ```yaml
        deepspeed: &block
          zero_optimization: {stage: 2}
          again: *block
        ```

    Use instead:
        ```yaml
        deepspeed:
          zero_optimization: {stage: 2}
        ```
    """
    copies = "Accelerate's copy of it fails"
    who = {"deepspeed": "hjson, which DeepSpeed reads with, fails", "accelerate": copies, "trainer": copies}
    fails = who.get(reader.name or "", "DeepSpeed and Accelerate fail")
    for mark in _marks(document, "too-deep"):
        is_alias = "alias" in mark.detail
        tail = "" if is_alias else f": {'PyYAML fails' if document.syntax == 'yaml' else fails} with a RecursionError"
        yield Problem(mark.detail + tail, span=(mark.start, mark.end))


@rule("ZC014", "several-yaml-documents", severity="error")
def several_yaml_documents(document: Document, reader: Reader) -> Iterator[Problem]:
    """A second document starts in the YAML file.

    Accelerate reads its file with yaml.safe_load, which stops with "expected a single document in the stream"
    (accelerate/commands/config/config_args.py).

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        ---
        mixed_precision: bf16
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        mixed_precision: bf16
        ```
    """
    severity: Severity = "error" if document.kind == "accelerate" or reader.stated else "warning"
    for mark in _marks(document, "second-document"):
        message = "a second YAML document starts here: yaml.safe_load takes only one"
        yield Problem(message, severity=severity, span=(mark.start, mark.end))


def _short(text: str) -> str:
    shown = text if len(text) <= 40 else text[:39] + "…"
    return shown if shown.isprintable() else ascii(shown)[1:-1]
