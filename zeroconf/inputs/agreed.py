"""What a configuration file and the options say of one workload, where both speak of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeroconf.errors import InputError
from zeroconf.inputs.ds_config import CONTRADICTED
from zeroconf.inputs.ds_keys import by_script

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from zeroconf.choices import Optimizer, Precision, Reader
    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.types import Plan, Workload

BATCH_OPTIONS: Final = ("global_batch_size", "micro_batch_size", "gradient_accumulation")


def workload_of_file(
    file: ConfigFile, workload: Workload, asked: AbstractSet[str], num_gpus: int, reader: Reader
) -> tuple[Workload, Plan]:
    """The workload and the plan that the file describes; an option fills what the file leaves open.

    ``asked`` names the options that were given: only these can contradict the file, not the defaults.

    Raises:
        InputError: an option says otherwise than the file, or its parallel sizes do not divide the GPUs.
    """
    total = workload.global_batch_size if "global_batch_size" in asked else None
    data_parallel = file.data_parallel_size(num_gpus)
    micro, steps = file.batch_split(
        data_parallel, workload.micro_batch_size, workload.gradient_accumulation_steps, total
    )
    asked_precision = workload.precision if "precision" in asked else None
    precision = _precision(file, asked_precision, reader) or workload.precision
    optimizer = file.optimizer or workload.optimizer
    check_optimizer(file, workload.optimizer if "optimizer" in asked else None, client="client_optimizer" in asked)
    for option, wanted, said in (
        ("--zero-stage", workload.zero_stage, file.plan.stage),
        ("--offload", workload.offload, file.plan.offload),
        ("--precision", asked_precision, precision),
    ):
        if wanted not in (None, said):
            _contradiction(f"{option} {wanted}", file, said)
    plan = replace(file.plan, micro_batch_size=micro, gradient_accumulation_steps=steps)
    plan = by_script(plan, file.content, optimizer)
    made = replace(
        workload,
        global_batch_size=micro * steps * data_parallel,
        precision=precision,
        optimizer=optimizer,
        sequence_parallel_size=file.sequence_parallel_size,
        tensor_parallel_size=file.tensor_parallel_size,
    )
    return made, plan


def check_optimizer(file: ConfigFile, asked: Optimizer | None, *, client: bool) -> None:
    """Whether the optimizer ``asked`` for, or the script's own (``client``), may stand beside the file's.

    Raises:
        InputError: the file has another.
    """
    named = file.content.get("optimizer")
    if not isinstance(named, dict):
        return
    its = named.get("type", "an optimizer")
    if client:
        _contradiction("--client-optimizer", file, its)
    if asked not in (None, file.optimizer):
        _contradiction(f"--optimizer {asked}", file, its)


def _precision(file: ConfigFile, asked: Precision | None, reader: Reader) -> Precision | None:
    """The file's precision, or the one asked for where the file leaves it open; None where neither says."""
    return asked if asked and file.leaves_precision_open(reader) else file.precision


def _contradiction(option: str, file: ConfigFile, said: object) -> None:
    msg = f"{option} contradicts {file.path}, which says {str(said)[:40]}; {CONTRADICTED}"
    raise InputError(msg)
