"""What a smoke test runs, in the estimate's terms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zeroconf.inputs.ds_keys import by_script
from zeroconf.types import Plan, Workload

if TYPE_CHECKING:
    from zeroconf.choices import Attention
    from zeroconf.inputs.ds_config import ConfigFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """What a job has beside its file. Batch sizes stand in for "auto" only.

    ``lora_rank`` 0 trains everything; ``zero_init`` is whether stage 3 partitions the model while it is built.
    """

    sequence_length: int
    micro_batch_size: int = 1
    gradient_accumulation_steps: int = 1
    activation_checkpointing: bool = False
    attention: Attention = "sdpa"
    lora_rank: int = 0
    zero_init: bool = True
    world_size: int = 1


def workload_and_plan(job: Shapes, file: ConfigFile, trainable: int | None) -> tuple[Workload, Plan]:
    """A job in the estimate's terms."""
    plan = replace(
        file.plan,
        micro_batch_size=job.micro_batch_size,
        gradient_accumulation_steps=job.gradient_accumulation_steps,
        activation_checkpointing=job.activation_checkpointing,
        zero_init=job.zero_init,
    )
    optimizer = file.optimizer or "adamw"
    plan = by_script(plan, file.content, optimizer)
    workload = Workload(
        sequence_length=job.sequence_length,
        global_batch_size=plan.micro_batch_size
        * plan.gradient_accumulation_steps
        * file.data_parallel_size(job.world_size),
        precision=file.precision or "bf16",
        optimizer=optimizer,
        attention=job.attention,
        trainable_parameters=trainable,
        lora_rank=job.lora_rank or None,
        sequence_parallel_size=file.sequence_parallel_size,
        tensor_parallel_size=file.tensor_parallel_size,
    )
    return workload, plan
