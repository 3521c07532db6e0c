"""What a smoke test runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroconf.plan.ran import Shapes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.smoke.measured import SmokeMode


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeJob(Shapes):
    """A configuration with the shapes of its job.

    ``architecture`` holds a ModelSpec's fields and, where it is known, the Hugging Face ``config`` that they were
    read from: its values, or the path of the file or its folder. The path alone will do. ``world_size`` ranks are
    started when the mode is real; else one process is ``rank`` of so many. ``bf16`` is whether a dry run's card
    computes in it, and ``gpus_per_node`` how many of them a node has.
    """

    ds_config: Mapping[str, Any]
    architecture: Mapping[str, Any] | Path
    steps: int = 3
    bf16: bool = True
    gpus_per_node: int = 8
    mode: SmokeMode = "real"
    rank: int = 0

    @property
    def num_processes(self) -> int:
        """How many processes run it."""
        return self.world_size if self.mode == "real" else 1

    def to_json(self) -> dict[str, Any]:
        """The fields, for the worker."""
        given = self.architecture
        spec: dict[str, Any] = {"config": given} if isinstance(given, Path) else dict(given)
        if isinstance(path := spec.get("config"), Path):
            spec["config"] = str(path.absolute())
        return asdict(self) | {"ds_config": dict(self.ds_config), "architecture": spec}
