"""ZC123: a DeepSpeed configuration inside of another object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document.edits import Edit, Fix
from zeroconf.rules.registry import Problem, Severity, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.document import Document
    from zeroconf.rules.facts import DsConfig, Reader


@rule("ZC123", "wrapped-config", severity="error")
def wrapped_config(document: Document, config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """The configuration stands in an object under a name of its own.

    DeepSpeed looks for its keys at the top level: it ignores the object and stops for want of a batch size ("Either
    train_batch_size or train_micro_batch_size_per_gpu needs to be provided", runtime/config.py,
    _set_batch_related_parameters), and Accelerate and the Trainer for want of zero_optimization
    (accelerate/utils/dataclasses.py, DeepSpeedPlugin). A program may take the object out before, as those do that keep
    other settings beside it.

    Example:
        ```json for=deepspeed
        {"ds_config": {"train_batch_size": 8, "zero_optimization": {"stage": 2}}}
        ```

    Use instead:
        ```json for=deepspeed
        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
        ```
    """
    if document.syntax != "json" or document.root is None or not config.prefix:
        return
    is_alone = len(config.prefix) == 1 and all(
        member.node is config.root or member.key.startswith(("_", "$")) for member in document.root.members
    )
    who = {"trainer": "the Trainer", "accelerate": "Accelerate"}.get(reader.name or "", "DeepSpeed")
    name = ".".join(map(str, config.prefix))
    severity: Severity = "info"
    if reader.stated and is_alone:
        severity = "error"
    elif reader.stated and reader.name == "deepspeed":
        severity = "warning"
    elif not is_alone:
        return  # a program's own file, which it takes apart itself
    inner = document.text[config.root.start : config.root.end]
    unwrapped = Fix("Unwrap it", (Edit(document.root.start, document.root.end, inner),), safe=False)
    yield Problem(
        f"{who} reads its keys at the top level and ignores {name}, unless your program takes it out first",
        config.prefix,
        on_key=True,
        fix=unwrapped if is_alone else None,
        severity=severity,
    )
