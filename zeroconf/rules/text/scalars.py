"""ZC008 to ZC013: values whose type is not the one that they seem to have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zeroconf.document.edits import Edit, Fix, replace
from zeroconf.keys import key_table
from zeroconf.rules.facts import View
from zeroconf.rules.idle import may_be_set_over
from zeroconf.rules.registry import Problem, Severity, rule
from zeroconf.rules.text.in_quotes import of_quoted_number
from zeroconf.rules.text.known import Known, known_scalars, read_scalars
from zeroconf.rules.text.quoted import FALSE, NULL, NUMBER, NUMERIC, TRUE, is_checked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document
    from zeroconf.document.node import Node, Path
    from zeroconf.rules.facts import DsConfig, Reader

_YAML_WORDS = {"yes", "no", "on", "off"}


@rule("ZC008", "number-as-string", severity="error")
def number_as_string(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """A number in quotes is text.

    Outside the blocks that pydantic models read, DeepSpeed computes with the text: "'>' not supported between
    instances of 'str' and 'int'" (runtime/config.py, _batch_assertion). In them "8" becomes 8, but "5e8" is no
    integer (runtime/zero/config.py). Transformers compares the stage with the number 3: with "3" every rank loads
    the whole model (integrations/deepspeed.py, is_deepspeed_zero3_enabled).

    Example:
        ```json
        {"train_batch_size": "8", "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
        ```
    """
    for known in read_scalars(config, reader):
        text = _text(known, *NUMERIC)
        if text is None or not NUMBER.fullmatch(text) or not _is_quoted(config.document, known):
            continue
        if (value := _meant_number(text, known)) is None:
            continue
        severity, tail = of_quoted_number(config, known, text, reader)
        fix = Fix(
            f"Write {value:g}" if isinstance(value, float) else f"Write {value}",
            replace(config.document, known.path, value),
        )
        yield Problem(f'"{text}" is text, not a number: {tail}', known.path, severity=severity, fix=fix)


@rule("ZC009", "boolean-as-string", severity="error")
def boolean_as_string(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """A boolean in quotes is text, and any text counts as true where nothing checks it.

    The pydantic models of DeepSpeed read "false" as false (runtime/config_utils.py), its other blocks do not
    (runtime/config.py, get_scalar_param). Accelerate and Transformers ask `bool("false")`, which is true, whether
    fp16 or bf16 is on (accelerate/utils/deepspeed.py, HfDeepSpeedConfig.is_true).

    Example:
        ```json
        {"train_batch_size": 8, "prescale_gradients": "false", "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "prescale_gradients": false, "zero_optimization": {"stage": 2}}
        ```
    """
    for known in read_scalars(config, reader):
        text = _text(known, "boolean")
        if text is None or text.lower() not in TRUE | FALSE or _is_bare_json(config.document, known):
            continue
        if text != known.node.value:
            continue  # with spaces around it pydantic takes it for no boolean
        value = text.lower() in TRUE
        severity: Severity = "info"
        tail = "DeepSpeed makes a boolean of it"
        if is_checked(known.block, known.key):
            severity, tail = "error", "DeepSpeed stops on it"
        elif known.block.path in {"fp16", "bf16"} and known.key.name == "enabled" and reader.name == "trainer":
            severity, tail = "error", "the Trainer compares it with its own true or false and stops"
        elif not known.is_checked:
            severity = "info" if value else "error"
            tail = "DeepSpeed takes any text as true"
        elif not value and known.block.path in {"fp16", "bf16"} and known.key.name == "enabled":
            severity = "error" if reader.fills_auto else "info" if reader.name else "warning"
            tail = "DeepSpeed reads false, Accelerate and Transformers take any text as true"
        fix = Fix(f"Write {str(value).lower()}", replace(config.document, known.path, value))
        yield Problem(f'"{text}" is text, not a boolean: {tail}', known.path, severity=severity, fix=fix)


@rule("ZC010", "null-as-string", severity="error")
def null_as_string(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """A null in quotes is text, not "unset".

    Only null without quotes means that DeepSpeed fills in the default (runtime/config.py, get_scalar_param and
    _set_batch_related_parameters); text in its place is computed with, or refused by the pydantic models.

    Example:
        ```json
        {"train_batch_size": 8, "gradient_accumulation_steps": "null", "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "gradient_accumulation_steps": null, "zero_optimization": {"stage": 2}}
        ```
    """
    for known in read_scalars(config, reader):
        text = _text(known, "null")
        if text is not None and text.lower() in NULL and _is_quoted(config.document, known):
            fix = Fix("Write null", replace(config.document, known.path, None))
            message = f'"{text}" is text: write null without quotes, or leave the key out'
            severity: Severity | None = "warning" if may_be_set_over(config, reader, known.path) else None
            yield Problem(message, known.path, severity=severity, fix=fix)


@rule("ZC011", "number-not-finite", severity="error")
def number_not_finite(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """A number is NaN, infinite, or too long to be read.

    Python's json takes NaN, Infinity and 1e400; hjson, with which DeepSpeed opens a path, makes text of the first
    two and stops at the third with an OverflowError (the hjson package, decoder.py, scantfnns). An integer of more
    than 4300 digits is refused by int() itself.

    Example:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": 1e400}}
        ```

    Use instead:
        ```json
        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": 500000000}}
        ```
    """
    known = {one.path: one for one in known_scalars(config, key_table("deepspeed"))}
    for path, _, node in config.root.walk(config.prefix):
        if not isinstance(node.value, float) or math.isfinite(node.value):
            continue
        written = config.document.text[node.start : node.end]
        shown = written if len(written) <= 20 else f"{written[:9]}… ({len(written)} digits)"
        severity = _of_infinite(known.get(path), written, reader, config.document)
        if severity is not None:
            yield Problem(f"{shown} is no finite number: write the number meant", path, severity=severity)


@rule("ZC012", "yaml-number-is-text", severity="error")
def yaml_number_is_text(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """A number like 5e8 or 2e-5 is text in YAML 1.1.

    PyYAML takes a number with an exponent only with a point and a signed exponent, 5.0e+8. What it gives for 5e8 is
    refused by DeepSpeed (ArcticTraining#165), for a learning rate of 2e-5 by the optimizer (LLaMA-Factory#4014).
    OmegaConf (Hydra) reads such numbers as numbers.

    Example:
        ```yaml
        deepspeed:
          train_micro_batch_size_per_gpu: 1
          zero_optimization:
            stage: 2
            reduce_bucket_size: 5e8
        ```

    Use instead:
        ```yaml
        deepspeed:
          train_micro_batch_size_per_gpu: 1
          zero_optimization:
            stage: 2
            reduce_bucket_size: 500000000
        ```
    """
    for known in read_scalars(config, reader):
        text = _text(known, *NUMERIC)
        if text is None or not NUMBER.fullmatch(text) or not _is_plain_yaml(config.document, known):
            continue
        if (value := _meant_number(text, known)) is None:
            continue
        is_read = known.is_checked and "number" in known.key.type
        severity: Severity = "info" if is_read else "error" if reader.stated else "warning"
        fix = Fix("Write it as a number of YAML 1.1", replace(config.document, known.path, value))
        message = f"{text} is text for PyYAML (YAML 1.1), not a number: write {_yaml_number(value)}"
        yield Problem(message, known.path, severity=severity, fix=fix)


@rule("ZC013", "yaml-word-is-boolean", severity="error")
def yaml_word_is_boolean(document: Document) -> Iterator[Problem]:
    """The words no, off, yes and on are booleans in YAML 1.1, not the words.

    Accelerate wants the word 'no' for `mixed_precision` and `dynamo_backend` and stops with "'bool' object has no
    attribute 'lower'" (accelerate/utils/launch.py). `distributed_type: no` it takes as NO.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        mixed_precision: no
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        mixed_precision: 'no'
        ```
    """
    if document.syntax != "yaml" or document.root is None:
        return
    for path, severity in _words_wanted(document, document.root):
        node = document.root.at(path)
        word = document.text[node.start : node.end] if node else ""
        if node and isinstance(node.value, bool) and word.lower() in _YAML_WORDS:
            fix = Fix("Put the word in quotes", (Edit(node.start, node.end, f"'{word}'"),))
            message = f"{word} is the boolean {str(node.value).lower()} in YAML 1.1: write '{word}'"
            yield Problem(message, path, severity=severity, fix=fix)


def _words_wanted(document: Document, root: Node) -> Iterator[tuple[Path, Severity]]:
    """The paths whose reader wants a word, with what a boolean does there."""
    if document.kind == "accelerate":
        yield ("mixed_precision",), "error"
        yield ("dynamo_config", "dynamo_backend"), "error"
    for start in document.configs:
        block = root.at(start)
        for known in known_scalars(View(document, block, start), key_table("deepspeed")) if block else ():
            if "string" in known.key.type and "boolean" not in known.key.type:
                yield known.path, "error" if known.is_checked else "warning"


def _text(known: Known, *types: str) -> str | None:
    """The value when it is text under a key that takes one of the types, and no text."""
    takes = set(known.key.type)
    if takes & {"string", "object"} or not takes & set(types) or not isinstance(known.node.value, str):
        return None
    return known.node.value.strip()


def _is_quoted(document: Document, known: Known) -> bool:
    return document.text[known.node.start : known.node.start + 1] in {'"', "'"}


def _is_plain_yaml(document: Document, known: Known) -> bool:
    return document.syntax == "yaml" and not _is_quoted(document, known)


def _is_bare_json(document: Document, known: Known) -> bool:
    """Whether the text stands without quotes in an HJSON: ZC002 to ZC004 are about those."""
    return document.syntax == "json" and not _is_quoted(document, known)


def _meant_number(text: str, known: Known) -> float | None:
    """The number that the text stands for, whole where the key wants it whole; None for one beyond a float."""
    value = float(text.replace("_", ""))
    if not math.isfinite(value):
        return None
    is_whole = value.is_integer() and ("integer" in known.key.type or "." not in text)
    return int(value) if is_whole else value


def _yaml_number(value: float) -> str:
    text = repr(value)
    return text if "." in text or "e" not in text else text.replace("e", ".0e", 1)


def _of_infinite(known: Known | None, written: str, reader: Reader, document: Document) -> Severity | None:
    """What a number that is not finite does; None when it does no harm."""
    digits = written.lstrip("+-")
    if digits.isdigit() or (known is not None and ("integer" in known.key.type or _is_bounded(known, written))):
        return "error"
    if document.syntax == "json" and reader.name == "deepspeed":
        return "error" if known is not None or digits[:1].isdigit() else None
    if known is None:
        return "warning" if document.syntax == "json" and reader.name is None and digits[:1].isdigit() else None
    if digits.lower().endswith("nan"):
        return "error"
    # "never" is what it is written for there
    return None if known.key.name == "steps_per_print" and reader.fills_auto else "warning"


def _is_bounded(known: Known, written: str) -> bool:
    """Whether the key's range ends on the side of the infinity; fp16's own check takes no loss scale without end."""
    key = known.key
    if written.startswith("-"):
        return key.minimum is not None or key.exclusive_minimum is not None
    is_loss_scale = (known.block.path, key.name) == ("fp16", "loss_scale")  # runtime/precision_config.py
    return is_loss_scale or key.maximum is not None or key.exclusive_maximum is not None
