"""ZC206-ZC208, ZC223: what the Trainer and Accelerate compute with, or compare, before DeepSpeed reads the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.rules.facts import AUTO
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig, Reader
    from zeroconf.rules.registry import Severity

_RATES = (("optimizer", "params", "lr"), ("scheduler", "params", "warmup_max_lr"))


@rule("ZC206", "null-for-accelerate", severity="error")
def null_for_accelerate(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """A value is null where Accelerate works with it.

    DeepSpeed takes null for unset. Accelerate, which the Trainer goes through, multiplies with
    gradient_accumulation_steps: "unsupported operand type(s) for *: 'int' and 'NoneType'" (accelerate/accelerator.py,
    _prepare_deepspeed); with fp16 it looks for bf16's enabled: "'NoneType' object has no attribute 'get'"
    (accelerate/utils/dataclasses.py, set_mixed_precision).

    Example:
        ```json for=trainer
        {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": null,
         "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json for=trainer
        {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
         "zero_optimization": {"stage": 2}}
        ```
    """
    if not reader.fills_auto:
        return
    severity: Severity | None = None if reader.stated else "warning"
    path = config.path("gradient_accumulation_steps")
    if _is_null(config, "gradient_accumulation_steps"):
        yield Problem(
            'Accelerate multiplies with gradient_accumulation_steps and stops at null; write "auto" or a number',
            path,
            fix=cure('Write "auto"', edits.replace(config.document, path, AUTO)),
            severity=severity,
        )
    path = config.path("bf16")
    if _is_null(config, "bf16"):
        # with fp16 it looks for bf16's enabled, else it leaves the block as it is, which is off
        fp16 = config.enabled("fp16") is not False
        yield Problem(
            f"bf16 is null: Accelerate {'stops at it' if fp16 else 'does not turn it on'}; leave the key out",
            path,
            fix=cure("Remove bf16", edits.remove(config.document, path)),
            severity=severity if fp16 else "warning",
        )


def _is_null(config: DsConfig, key: str) -> bool:
    node = config.node(key)
    return node is not None and node.kind == "scalar" and node.value is None


@rule("ZC208", "batch-size-not-filled", severity="error")
def batch_size_not_filled(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """Accelerate fills train_batch_size only where train_micro_batch_size_per_gpu stands beside it.

    It works train_batch_size out from the micro batch that the file holds or leaves to it with "auto"; without that key
    it stops: "`train_batch_size` not found in kwargs" (accelerate/accelerator.py, _prepare_deepspeed). The Trainer
    fills either by itself.

    Example:
        ```json for=accelerate
        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json for=accelerate
        {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
        ```
    """
    micro = "train_micro_batch_size_per_gpu"
    if reader.name != "accelerate" or config.get("train_batch_size") != AUTO or config.get(micro) is not None:
        return
    yield Problem(
        f'Accelerate works train_batch_size "auto" out from {micro}, which is missing; write it with "auto"',
        config.path("train_batch_size"),
        fix=None if config.has(micro) else cure(f"Add {micro}", _with_auto(config, micro)),
        severity=None if reader.stated else "warning",
    )


def _with_auto(config: DsConfig, key: str) -> tuple[edits.Edit, ...]:
    return edits.insert(config.document, config.path(key), AUTO)


@rule("ZC223", "two-learning-rates", severity="error")
def two_learning_rates(config: DsConfig, reader: Reader) -> Iterator[Problem]:
    """The Trainer has one learning rate, and the file names two.

    It compares both optimizer.params.lr and scheduler.params.warmup_max_lr with its --learning_rate and stops where
    one differs: "Please correct the following DeepSpeed config values that mismatch TrainingArguments values"
    (transformers/integrations/deepspeed.py, trainer_config_process). DeepSpeed itself lets the scheduler decide.

    Example:
        ```json for=trainer
        {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2},
         "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
         "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.0001, "warmup_num_steps": 100}}}
        ```

    Use instead:
        ```json for=trainer
        {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2},
         "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
         "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto", "warmup_num_steps": 100}}}
        ```
    """
    rate, peak = (config.number(*steps) for steps in _RATES)
    if reader.name != "trainer" or rate is None or peak is None or rate == peak:
        return
    made = tuple(edit for steps in _RATES for edit in edits.replace(config.document, config.path(*steps), AUTO))
    yield Problem(
        f'the Trainer stops: no learning rate is both lr {rate:g} and warmup_max_lr {peak:g}; write "auto" for both',
        config.path(*_RATES[1]),
        fix=cure('Write "auto" for both', made, safe=False),
        severity=None if reader.stated else "warning",
    )
