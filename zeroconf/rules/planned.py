"""A file's plan as rules name it: its figures, and where in the file each of its fields stands."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from zeroconf.document import edits
from zeroconf.rules.facts import AccelerateConfig
from zeroconf.rules.launch import Launch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.document.edits import Fix
    from zeroconf.document.node import Path
    from zeroconf.plan.of_file import FilePlan
    from zeroconf.rules.facts import DsConfig
    from zeroconf.types import Estimate, Facts, Plan

Field = Literal[
    "stage",
    "micro",
    "steps",
    "offload_optimizer",
    "offload_param",
    "hpz",
    "bucket",
    "persistence",
    "multi_rank",
    "quantized_weights",
    "quantized_gradients",
    "pin_memory",
]
_ZERO: Final = "zero_optimization"
_IN_CONFIG: Final[dict[Field, tuple[str, ...]]] = {
    "stage": (_ZERO, "stage"),
    "micro": ("train_micro_batch_size_per_gpu",),
    "steps": ("gradient_accumulation_steps",),
    "offload_optimizer": (_ZERO, "offload_optimizer", "device"),
    "offload_param": (_ZERO, "offload_param", "device"),
    "hpz": (_ZERO, "zero_hpz_partition_size"),
    "bucket": (_ZERO, "reduce_bucket_size"),
    "persistence": (_ZERO, "stage3_param_persistence_threshold"),
    "multi_rank": (_ZERO, "use_multi_rank_bucket_allreduce"),
    "quantized_weights": (_ZERO, "zero_quantized_weights"),
    "quantized_gradients": (_ZERO, "zero_quantized_gradients"),
    "pin_memory": (_ZERO, "offload_optimizer", "pin_memory"),
}
_ON_LAUNCH: Final[dict[Field, tuple[str, ...]]] = {
    "micro": ("program", "--per_device_train_batch_size"),
    "steps": ("program", "--gradient_accumulation_steps"),
}
_INLINE: Final = "deepspeed_config"
_IN_ACCELERATE: Final[dict[Field, tuple[str, ...]]] = {
    "stage": (_INLINE, "zero_stage"),
    "steps": (_INLINE, "gradient_accumulation_steps"),
    "offload_optimizer": (_INLINE, "offload_optimizer_device"),
    "offload_param": (_INLINE, "offload_param_device"),
}


class Planned(NamedTuple):
    """The plan that a DeepSpeed configuration describes under the facts.

    It stands in a file of its own, in an Accelerate YAML's inline fields, or in a file whose "auto" the Trainer's
    arguments on a launch line fill.
    """

    of_file: FilePlan
    view: DsConfig | AccelerateConfig | Launch

    @property
    def facts(self) -> Facts:
        """The facts, with the file's batch, precision and optimizer in the workload."""
        return self.of_file.facts

    @property
    def plan(self) -> Plan:
        """The file's plan."""
        return self.of_file.plan

    @property
    def cost(self) -> Estimate:
        """What it costs."""
        return self.of_file.candidate.estimate

    def path(self, field: Field) -> Path:
        """Where the field stands, or would stand, in the file; on a launch line the argument, or the file's name."""
        steps = self._places.get(field, (_INLINE,))
        if isinstance(self.view, Launch) and not self.view.has(*steps):
            return self.view.naming.path if self.view.naming else self.view.path("command")
        return self.view.path(*steps)

    def may_say(self, field: Field) -> bool:
        """Whether this kind of file has a key for the field, which a fix may write."""
        return field in self._places and not isinstance(self.view, Launch)

    @property
    def _places(self) -> Mapping[Field, tuple[str, ...]]:
        if isinstance(self.view, Launch):
            return _ON_LAUNCH
        return _IN_ACCELERATE if isinstance(self.view, AccelerateConfig) else _IN_CONFIG


def set_to(planned: Planned, **values: int) -> Fix | None:
    """An unsafe fix that writes fields' values; None where the file leaves no way to."""
    fields = [cast("Field", name) for name in values]
    document = planned.view.document
    if not all(map(planned.may_say, fields)):
        return None
    made = [edits.insert(document, planned.path(field), values[field]) for field in fields]
    together = sorted((edit for written in made for edit in written), key=lambda edit: (edit.start, edit.end))
    apart = all(one.start < other.start >= one.end for one, other in pairwise(together))
    told = " and ".join(f"{planned.path(field)[-1]} {str(values[field]).lower()}" for field in fields)
    return edits.Fix(f"Write {told}", tuple(together), safe=False) if all(made) and apart else None
