"""What a smoke test runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from zeroconf.plan.ran import Shapes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.smoke.measured import SmokeMode


# what --calibrate predicts
_FACTS: Final = (
    "architecture",
    "sequence_length",
    "activation_checkpointing",
    "attention",
    "lora_rank",
    "zero_init",
    "world_size",
    "rank",
)


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
    def facts(self) -> dict[str, Any]:
        """What a measurement is kept with, beside the configuration."""
        values = self.to_json()
        return {name: values[name] for name in _FACTS}

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramJob:
    """A user's own program on ``world_size`` ranks, ended after so many optimizer steps.

    ``config`` is what ``accelerate launch`` gets: an Accelerate YAML, or a ds_config.json. With the other launchers the
    configuration is the program's own, and None here.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    config: Path | None = None
    steps: int = 3
    world_size: int = 1

    mode: ClassVar[SmokeMode] = "real"
    # known once DeepSpeed has read it
    ds_config: ClassVar[Mapping[str, Any]] = {}

    @property
    def facts(self) -> dict[str, Any]:
        """What a measurement is kept with, beside the configuration."""
        return {"script": str(self.script), "arguments": list(self.arguments), "world_size": self.world_size}

    @property
    def num_processes(self) -> int:
        """How many processes run it."""
        return self.world_size

    def to_json(self) -> dict[str, Any]:
        """The fields, for the worker."""
        config = None if self.config is None else str(self.config.absolute())
        script, folder = str(self.script.absolute()), str(Path.cwd())
        run = {"steps": self.steps, "mode": self.mode, "rank": 0}
        return self.facts | run | {"script": script, "folder": folder, "config": config}
