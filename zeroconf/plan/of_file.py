"""A configuration file under facts: the plan that it describes, what that costs, and what would be chosen instead."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from zeroconf.errors import InputError
from zeroconf.inputs.agreed import BATCH_OPTIONS, workload_of_file
from zeroconf.inputs.workload import check_bitsandbytes
from zeroconf.plan.choose import decide
from zeroconf.plan.search import costed

if TYPE_CHECKING:
    from zeroconf.inputs.ds_config import ConfigFile
    from zeroconf.types import Candidate, Decision, Facts, Plan


def facts_of_file(facts: Facts, file: ConfigFile) -> tuple[Facts, Plan]:
    """The file's plan, and the facts with what the file says in the place of options.

    Raises:
        InputError: the file contradicts itself at this number of GPUs, or an option contradicts it.
    """
    num_gpus = facts.cluster.num_gpus
    if num_gpus % file.plan.zero_hpz_partition_size:
        size = file.plan.zero_hpz_partition_size
        msg = f"{file.path}: zero_hpz_partition_size {size} does not divide {num_gpus} GPUs"
        raise InputError(msg)
    workload, plan = workload_of_file(file, facts.workload, facts.asked, num_gpus, facts.reader)
    facts = replace(facts, workload=workload)
    notes = [f"not modelled, so not in these figures: {', '.join(file.not_modelled)}"] if file.not_modelled else []
    if None in (file.micro_batch_size, file.gradient_accumulation_steps) and not BATCH_OPTIONS & facts.asked:
        split = f"micro batch {plan.micro_batch_size} x accumulation {plan.gradient_accumulation_steps}"
        notes.append(f"{split}, where the file leaves it open; --micro-batch-size and --gradient-accumulation say it")
    check_bitsandbytes(facts.workload, plan.offload, file.path)
    recompute = workload.activation_checkpointing == "full"
    if workload.activation_checkpointing == "auto" and costed(facts, plan).estimate.verdict != "comfortable":
        recompute = True
        notes.append(
            "activation checkpointing is assumed, since without it the plan is not comfortable; the file cannot say: "
            "--activation-checkpointing none or full does"
        )
    facts = replace(facts, workload=replace(facts.workload, assumptions=tuple(notes)))
    return facts, replace(plan, activation_checkpointing=recompute)


class FilePlan:
    """A file's plan under the facts, with its cost; plans that differ from it in a key; what would be chosen instead.

    ``facts`` are those of the file: its batch, precision and optimizer stand in the workload.
    """

    def __init__(self, facts: Facts, file: ConfigFile) -> None:
        """Reads the plan.

        Raises:
            InputError: the file contradicts itself at this number of GPUs, or an option contradicts it.
        """
        self.file = file
        self.facts, self.plan = facts_of_file(facts, file)
        self._asked = facts.workload

    @cached_property
    def candidate(self) -> Candidate:
        """The plan with its cost and the limit that it breaks."""
        return costed(self.facts, self.plan)

    @property
    def batch_is_known(self) -> bool:
        """Whether the file and the options say the global batch and its split, which times depend on."""
        file, asked = self.file, self.facts.asked
        known = [file.train_batch_size, file.micro_batch_size, file.gradient_accumulation_steps]
        return sum(value is not None for value in known) + len(asked & BATCH_OPTIONS) > 1

    def with_changes(self, **changes: Any) -> Candidate:
        """The same plan but for some of its fields, with its cost."""
        return costed(self.facts, replace(self.plan, **changes))

    @cached_property
    def decision(self) -> Decision:
        """What ``generate`` would decide in the file's place: the same batch, precision and optimizer."""
        asked = self._asked
        workload = replace(
            self.facts.workload,
            micro_batch_size=asked.micro_batch_size,
            gradient_accumulation_steps=asked.gradient_accumulation_steps,
            assumptions=(),
        )
        return _decide(replace(self.facts, workload=workload, given=self.file.plan))


# files of one project often come to the same facts
_decide = lru_cache(maxsize=256)(decide)
