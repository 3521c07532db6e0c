"""A launch line of a script as rules see it: how many processes it starts, and which files it names."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zeroconf.document.slurm import Job, read_job
from zeroconf.rules.accelerate.reading import num_machines, whole_number
from zeroconf.rules.facts import AUTO, View

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.document.document import Document
    from zeroconf.document.node import Node, Path
    from zeroconf.rules.facts import AccelerateConfig

_STARTS_RANKS: Final = {"srun", "mpirun"}
# srun's options that say what of the job starts the command
_OWN_TASKS: Final = (
    "--ntasks",
    "--nodes",
    "--nodelist",
    "--relative",
    "--gpus-per-task",
    "--het-group",
    "--multi-prog",
)
_OWN_TASKS_SHORT: Final = {"-n", "-N", "-w", "-r"}
_RANK_NAMES: Final = {"RANK", "WORLD_SIZE", "LOCAL_RANK"}
_TRUE_WORDS: Final = {"yes", "true", "t", "y", "1"}
_FALSE_WORDS: Final = {"no", "false", "f", "n", "0"}
_ADAMW: Final = {"adamw_torch", "adamw_torch_fused"}
# transformers/integrations/deepspeed.py, trainer_config_process
_BATCH: Final = {
    "train_micro_batch_size_per_gpu": "--per_device_train_batch_size",
    "gradient_accumulation_steps": "--gradient_accumulation_steps",
}
_NUM_NODES: Final = {"torchrun": "--nnodes", "accelerate": "--num_machines"}
_INCLUDED: Final = re.compile(r"[^:@]+:(\d+(?:,\d+)*)")


class Given(NamedTuple):
    """An option of a launch line: its text, None where only the shell knows it, True without one; and its place."""

    name: str
    value: str | bool | None
    path: Path

    @property
    def text(self) -> str:
        """The value as text; empty without one."""
        return self.value if isinstance(self.value, str) else ""


class Launch(View):
    """One launch line; ``accelerate`` is the YAML and ``hosts`` the hostfile that it names, where they are there."""

    __slots__ = ("accelerate", "hosts")

    def __init__(
        self,
        document: Document,
        root: Node,
        prefix: Path,
        accelerate: AccelerateConfig | None = None,
        hosts: Document | None = None,
    ) -> None:
        super().__init__(document, root, prefix)
        self.accelerate = accelerate
        self.hosts = hosts

    @property
    def command(self) -> str:
        """``deepspeed``, ``torchrun``, ``accelerate``, or ``python`` for a launch without a launcher."""
        return str(self.get("command", default=""))

    def launcher(self, *names: str) -> Given | None:
        """The launcher's option of one of these names."""
        return self._given("launcher", names)

    def program(self, *names: str) -> Given | None:
        """The program's option of one of these names."""
        return self._given("program", names)

    def _given(self, part: str, names: tuple[str, ...]) -> Given | None:
        for name in names:
            if (node := self.node(part, name)) is not None:
                return Given(name, node.value, self.path(part, name))
        return None

    def flag(self, name: str) -> bool | None:
        """A boolean of the program as HfArgumentParser reads it; None where it is not given, or not known."""
        given = self.program(name)
        if given is None:
            return None
        word = str(given.value).lower()
        return True if word in _TRUE_WORDS else False if word in _FALSE_WORDS else None

    @property
    def config(self) -> Given | None:
        """The ds_config.json that the line itself names."""
        options = (
            self.program("--deepspeed_config", "--deepspeed"),
            self.launcher("--deepspeed_config_file") if self.command == "accelerate" else None,
        )
        return next((one for one in options if one is not None and isinstance(one.value, str)), None)

    @property
    def naming(self) -> Given | None:
        """The option that leads to the ds_config.json: its own, or that of the Accelerate YAML."""
        return self.config or (self.launcher("--config_file") if self.command == "accelerate" else None)

    @property
    def is_for_trainer(self) -> bool:
        """Whether TrainingArguments read the line: only they take a file behind --deepspeed."""
        given = self.program("--deepspeed")
        return given is not None and isinstance(given.value, str)

    def filled(self, content: Mapping[str, Any]) -> dict[str, Any] | None:
        """A ds_config's content with the Trainer's arguments in the place of "auto"; None where they say no batch.

        Also None where they ask for an optimizer or for adapters that no fact speaks of.
        """
        optimizer = self.program("--optim")
        others = [name for name in self.program_names if "lora" in name or "peft" in name or "quant" in name]
        if others or (optimizer and optimizer.value not in _ADAMW):
            return None
        made, says_batch = dict(content), False
        for key, argument in _BATCH.items():
            given = self.program(argument)
            number = whole_number(given.text) if given else None
            if number and number > 0 and made.get(key) in (None, AUTO):
                made[key], says_batch = number, True
        for name in ("bf16", "fp16"):
            block, is_on = made.get(name), self._precision(name)
            if isinstance(block, dict) and block.get("enabled") == AUTO and is_on is not None:
                made[name] = {**block, "enabled": is_on}
        return made if says_batch and (self.is_for_trainer or self.command == "accelerate") else None

    def _precision(self, name: str) -> bool | None:
        """Whether the Trainer's argument switches it on, or else Accelerate; None where neither says."""
        own = self.flag(f"--{name}")
        if own is not None or self.command != "accelerate":
            return own
        given = self.launcher("--mixed_precision")
        mixed = given.value if given else self.accelerate.get("mixed_precision") if self.accelerate else None
        return None if mixed is None else mixed == name

    @property
    def program_names(self) -> list[str]:
        """The names of the program's options."""
        node = self.node("program")
        return [member.key for member in node.members] if node else []

    def from_start(self, name: str) -> str | None:
        """A file's name from where the script starts; None where the script goes to a folder that is not known."""
        folder = str(self.get("folder", default=""))
        if name.startswith(("/", "~")) or not folder:
            return name
        return None if folder == "?" else f"{folder}/{name}"

    @property
    def gives_ranks(self) -> bool:
        """Whether something else than the launcher gives the processes their ranks."""
        wrappers, names = (set(str(self.get(key, default="")).split()) for key in ("wrappers", "environment"))
        return bool(wrappers & _STARTS_RANKS or names & _RANK_NAMES)

    @property
    def per_node(self) -> tuple[int, Path] | None:
        """Processes on each node and the option that says so; None where the line and its files do not."""
        if self.command == "accelerate":
            processes, machines = self._accelerate_processes(), self._accelerate_machines()
            return (processes[0] // machines, processes[1]) if processes and machines else None
        names = {
            "deepspeed": ("--num_gpus", "--num_accelerators"),
            "torchrun": ("--nproc_per_node",),
        }.get(self.command, ())
        given = self.launcher(*names)
        number = whole_number(given.text) if given else None
        return (number, given.path) if given and number and number > 0 else None

    @property
    def world(self) -> tuple[int, Path] | None:
        """Processes on all nodes, and the option that says so; None where the line and its files do not.

        Also None where options of the launcher are hidden in a variable.
        """
        if self.get("hidden"):
            return None
        match self.command:
            case "accelerate":
                return self._accelerate_processes()
            case "deepspeed":
                return self._included() or self._deepspeed_processes()
            case "torchrun" if self.per_node and self.num_nodes:
                return self.per_node[0] * self.num_nodes[0], self.per_node[1]
        return None

    @property
    def nodes_option(self) -> str:
        """The launcher's option for the nodes of the whole launch; empty where it has none, as with a hostfile."""
        return _NUM_NODES.get(self.command, "")

    @property
    def num_nodes(self) -> tuple[int, Path] | None:
        """The nodes of the whole launch, and the option that says so; None where the line does not, or only the most.

        torchrun's default is 1; the ``deepspeed`` launcher takes no more than its hostfile has.
        """
        given = self.launcher(self.nodes_option) if self.nodes_option else None
        if self.command == "torchrun" and given is None:
            return 1, self.path("command")
        number = whole_number(given.text) if given else None
        return (number, given.path) if given and number and number > 0 else None

    @property
    def joins_others(self) -> bool:
        """Whether a node's number comes from elsewhere than the job: the script is then started for each."""
        rank = self.launcher("--node_rank", "--machine_rank")
        node = self.document.root.at(rank.path) if rank and self.document.root else None
        return node is not None and "SLURM" not in self.document.text[node.start : node.end]

    @property
    def is_for_each_task(self) -> bool:
        """Whether srun starts the line in each task of the job: it has no number of tasks or nodes of its own."""
        words = str(self.get("wrapping", default="")).split()
        hidden = any(word.startswith("$") and not before.startswith("-") for before, word in pairwise(["", *words]))
        own = any(word.startswith(_OWN_TASKS) or word[:2] in _OWN_TASKS_SHORT for word in words)
        return "srun" in str(self.get("wrappers", default="")).split() and not hidden and not own

    @property
    def job(self) -> Job:
        """What the script asks of Slurm."""
        return read_job(self.document.text)

    def _accelerate_processes(self) -> tuple[int, Path] | None:
        given = self.launcher("--num_processes")
        if given is not None:
            number = whole_number(given.text)
            return (number, given.path) if number and number > 0 else None
        named = self.launcher("--config_file")
        number = whole_number(self.accelerate.get("num_processes")) if self.accelerate else None
        return (number, named.path) if named and number and number > 0 else None

    def _accelerate_machines(self) -> int | None:
        """None where neither the line nor its YAML says: then the user's own default file may."""
        if self.launcher("--num_machines"):
            return self.num_nodes[0] if self.num_nodes else None
        return num_machines(self.accelerate) if self.accelerate else None

    def _deepspeed_processes(self) -> tuple[int, Path] | None:
        nodes = self.launcher("--num_nodes")
        number = whole_number(nodes.text) if nodes else None
        if self.hosts is not None and self.hosts.root is not None:
            slots = [member.node.value for member in self.hosts.root.members]
            slots = slots[:number] if number and number > 0 else slots
            if self.per_node:
                return self.per_node[0] * len(slots), self.per_node[1]
            named = self.launcher("--hostfile")
            return (sum(slots), named.path) if named and all(isinstance(one, int) for one in slots) else None
        if self.per_node is None or (nodes is not None and not number):
            return None
        # a hostfile that is not here says how many nodes there are
        is_known = self.launcher("--hostfile") is None or number
        return (self.per_node[0] * (number or 1), self.per_node[1]) if is_known else None

    def _included(self) -> tuple[int, Path] | None:
        """``--include localhost:0,1@node-2:0,1``: one process for each number."""
        given = self.launcher("--include")
        parts = [_INCLUDED.fullmatch(part) for part in given.text.split("@")] if given and given.text else []
        found = [part for part in parts if part]
        if given is None or not parts or len(found) < len(parts):
            return None
        return sum(part[1].count(",") + 1 for part in found), given.path
