"""The facts that a rule can name as a parameter, besides the document itself.

document   the file, whatever it holds
config     a DeepSpeed configuration (``DsConfig``): a ds_config.json, or the block in a YAML
accelerate an Accelerate YAML (``AccelerateConfig``)
hostfile   a hostfile (the Document)
launch     a launch line of a script (``Launch``)
named      the ds_config.json that an Accelerate YAML or a launch line names (``Named``)
hosts      the hostfile that a launch line names (the Document)
reader     which program reads the file (``Reader``)
releases   the DeepSpeed and Accelerate releases to check against (``Releases``)
model      the model (``ModelSpec``), from --model or the project file; with the next three a rule is skipped without
gpu        the GPU type (``Gpu``), from --hardware
cluster    the cluster (``Cluster``), from --hardware with a number of GPUs
planned    what the file's plan costs under all of these (``Planned``), and what would be chosen in its place
linted     what all other rules found (``Linted``); such a rule names nothing but this, document and releases

A rule whose ``config``, ``accelerate``, ``hostfile`` or ``launch`` is of another kind of file does not apply to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from zeroconf.document.document import Document
    from zeroconf.document.node import Node, Path

AUTO = "auto"
_PLAIN_NUMBER = (int, float)


class Reader(NamedTuple):
    """Who reads the file: as ``--for`` says (``stated``), or as far as its content shows; None when nothing does."""

    name: Literal["deepspeed", "accelerate", "trainer"] | None = None
    stated: bool = False

    @property
    def fills_auto(self) -> bool:
        """Whether "auto" is replaced before DeepSpeed sees the file (by Accelerate or the Trainer)."""
        return self.name in {"accelerate", "trainer"}

    @property
    def strict_json(self) -> bool:
        """Whether the file is read by Python's json: no comments, no trailing commas."""
        return self.fills_auto


class View:
    """A part of a document, read by paths from its own root; ``prefix`` leads to it from the document's root."""

    __slots__ = ("document", "prefix", "root")

    def __init__(self, document: Document, root: Node, prefix: Path = ()) -> None:
        self.document = document
        self.root = root
        self.prefix = prefix

    def path(self, *steps: str | int) -> Path:
        """The path from the document's root: what a Problem and the edits take."""
        return (*self.prefix, *steps)

    def node(self, *steps: str | int) -> Node | None:
        """The node at the path, None when it is not there."""
        return self.root.at(steps)

    def has(self, *steps: str | int) -> bool:
        """Whether the file has the path, be it null."""
        return self.root.at(steps) is not None

    def get(self, *steps: str | int, default: Any = None) -> Any:
        """The plain value at the path; ``default`` where the file has none or null."""
        node = self.root.at(steps)
        value = node.plain() if node else None
        return default if value is None else value

    def number(self, *steps: str | int) -> float | None:
        """The number at the path; None for anything that is no number ("auto", a string, a boolean)."""
        value = self.get(*steps)
        return value if isinstance(value, _PLAIN_NUMBER) and not isinstance(value, bool) else None

    def is_on(self, *steps: str | int) -> bool:
        """Whether the path holds true: also "true", "on", "yes", and any number but 0 (pydantic takes 1 only)."""
        value = self.get(*steps)
        if isinstance(value, str):
            return value.lower() in {"true", "t", "yes", "y", "on", "1"}
        return value is True or (isinstance(value, _PLAIN_NUMBER) and value != 0)


class DsConfig(View):
    """A DeepSpeed configuration as the engine understands it."""

    __slots__ = ()

    @property
    def stage(self) -> int | None:
        """The ZeRO stage that the engine runs: 0 without a block; None for "auto", and for what is no stage."""
        block = self.get("zero_optimization")
        if isinstance(block, bool):
            return int(block)
        stage = self.get("zero_optimization", "stage", default=0)
        if isinstance(stage, str) and stage.isdecimal():
            stage = int(stage)
        is_number = isinstance(stage, _PLAIN_NUMBER) and not isinstance(stage, bool)
        return int(stage) if is_number and stage in (0, 1, 2, 3) else None

    def zero(self, *steps: str | int, default: Any = None) -> Any:
        """A plain value in ``zero_optimization``."""
        return self.get("zero_optimization", *steps, default=default)

    def offload(self, name: Literal["offload_optimizer", "offload_param"]) -> str:
        """The device named: "none", "cpu", "nvme", or whatever else the file holds; the old booleans count."""
        old = {"offload_optimizer": "cpu_offload", "offload_param": "cpu_offload_params"}[name]
        device = self.zero(name, "device", default="none")
        if device == "none" and self.is_on("zero_optimization", old):
            return "cpu"
        return device if isinstance(device, str) and device != AUTO else "none"

    def enabled(self, name: str) -> bool | None:
        """Whether a block like ``bf16`` is on; None when an "auto" leaves it to its filler."""
        value = self.get(name, "enabled")
        return None if value == AUTO else self.is_on(name, "enabled")


class AccelerateConfig(View):
    """An Accelerate YAML; ``deepspeed`` reads its ``deepspeed_config``."""

    __slots__ = ()

    def deepspeed(self, *steps: str | int, default: Any = None) -> Any:
        """A plain value in ``deepspeed_config``."""
        return self.get("deepspeed_config", *steps, default=default)


def keeps_points(config: DsConfig, reader: Reader) -> bool:
    """Whether 8.0 stays a float: hjson, with which DeepSpeed opens a JSON, makes an integer of it, json does not."""
    return reader.name != "deepspeed" or config.document.syntax != "json"
