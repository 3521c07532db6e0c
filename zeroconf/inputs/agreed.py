"""What a configuration file and the options say of one workload, where both speak of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zeroconf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from zeroconf.choices import Precision, Reader
    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.types import Plan, Workload


def workload_of_file(
    file: ConfigFile, workload: Workload, asked: AbstractSet[str], num_gpus: int, reader: Reader
) -> tuple[Workload, Plan]:
    """The workload and the plan that the file describes; an option fills what the file leaves open.

    ``asked`` names the options that were given: only these can contradict the file, not the defaults.

    Raises:
        InputError: an option says otherwise than the file.
    """
    total = workload.global_batch_size if "global_batch_size" in asked else None
    micro, steps = file.batch_split(num_gpus, workload.micro_batch_size, workload.gradient_accumulation_steps, total)
    asked_precision = workload.precision if "precision" in asked else None
    precision = _precision(file, asked_precision, reader) or workload.precision
    optimizer = file.optimizer or workload.optimizer
    named = file.content.get("optimizer")
    if isinstance(named, dict):
        its = named.get("type", "an optimizer")
        if "client_optimizer" in asked:
            _contradiction("--client-optimizer", file, its)
        if "optimizer" in asked and workload.optimizer != file.optimizer:
            _contradiction(f"--optimizer {workload.optimizer}", file, its)
    for option, wanted, said in (
        ("--zero-stage", workload.zero_stage, file.plan.stage),
        ("--offload", workload.offload, file.plan.offload),
        ("--precision", asked_precision, precision),
    ):
        if wanted not in (None, said):
            _contradiction(f"{option} {wanted}", file, said)
    plan = replace(file.plan, micro_batch_size=micro, gradient_accumulation_steps=steps)
    batch = micro * steps * num_gpus
    return replace(workload, global_batch_size=batch, precision=precision, optimizer=optimizer), plan


def _precision(file: ConfigFile, asked: Precision | None, reader: Reader) -> Precision | None:
    """The file's precision, None where it is open.

    Without any block it is fp32 to DeepSpeed, while Accelerate and the Trainer add the block of their own precision
    (accelerate/utils/dataclasses.py: DeepSpeedPlugin.set_mixed_precision).
    """
    blocks = {"bf16", "bfloat16", "fp16", "torch_autocast"} & file.content.keys()
    return asked if asked and not blocks and reader != "deepspeed" else file.precision


def _contradiction(option: str, file: ConfigFile, said: object) -> None:
    msg = f"{option} contradicts {file.path}, which says {str(said)[:40]}; leave the option out"
    raise InputError(msg)
