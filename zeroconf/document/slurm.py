"""What a script asks of Slurm: the ``#SBATCH`` lines above its first command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIRECTIVE: Final = re.compile(r"#SBATCH[ \t]+(.*)")
_OPTION: Final = re.compile(r"(?<!\S)(?:--([a-z-]+)(?:=|[ \t]+)|-([A-Zn])[ \t]*=?)(\S+)")
_LONG: Final = {"N": "nodes", "G": "gpus", "n": "ntasks"}
# several jobs in one script: arrays, heterogeneous jobs
_IN_PARTS: Final = re.compile(r"hetjob|packjob|--array\b|\s-a\b")
_COUNT: Final = re.compile(r"\d{1,6}")
_GPUS: Final = re.compile(r"(?:[\w.-]+:)*?(\d{1,3})(?:\([^)]*\))?")


class Asked(NamedTuple):
    """A number that a directive asks for, and where it stands."""

    number: int
    start: int
    end: int


class Job(NamedTuple):
    """The nodes of a job, the GPUs and the tasks on each; None where the script does not say, or not one number."""

    nodes: Asked | None = None
    gpus_per_node: Asked | None = None
    tasks_per_node: Asked | None = None


def read_job(text: str) -> Job:
    """The job of a script that is one; of directives with the same name the last counts, as in sbatch(1)."""
    found: dict[str, Asked | None] = {}
    at = 0
    for line in text.splitlines(keepends=True):
        if line.strip() and not line.startswith("#"):
            break
        if directive := _DIRECTIVE.match(line):
            if _IN_PARTS.search(line):
                return Job()
            for option in _OPTION.finditer(directive[1].split(" #")[0]):
                start = at + directive.start(1) + option.start(3)
                found |= _asked(_LONG.get(option[2], option[1] or ""), option[3], start)
        at += len(line)
    return Job(found.get("nodes"), found.get("gpus-per-node", found.get("gres")), _tasks_per_node(found))


def _tasks_per_node(found: Mapping[str, Asked | None]) -> Asked | None:
    """None too where tasks have their own GPUs, or do not come in equal numbers.

    Beside --ntasks that of a node is only the most (sbatch(1)).
    """
    nodes, every = found.get("nodes"), found.get("ntasks")
    if "gpus-per-task" in found:
        return None
    if "ntasks" not in found:
        return found.get("ntasks-per-node")
    if not nodes or not every or not nodes.number or every.number % nodes.number:
        return None
    return every._replace(number=every.number // nodes.number)


def _asked(name: str, value: str, start: int) -> dict[str, Asked | None]:
    end = start + len(value)
    if name in {"nodes", "ntasks", "ntasks-per-node", "gpus-per-task"}:
        return {name: Asked(int(value), start, end) if _COUNT.fullmatch(value) else None}
    if name == "gpus-per-node":
        found = _GPUS.fullmatch(value)
        return {name: Asked(int(found[1]), start, end) if found else None}
    if name == "gres":
        of_gpus = [_GPUS.fullmatch(part) for part in value.split(",") if part.partition(":")[0] == "gpu"]
        is_one = len(of_gpus) == 1 and of_gpus[0] is not None
        return {name: Asked(int(of_gpus[0][1]), start, end) if is_one and of_gpus[0] else None}
    return {}


def job_variables(text: str) -> dict[str, str]:
    """The variables that Slurm sets in such a job (sbatch(1), output environment variables)."""
    if "#SBATCH" not in text:
        return {}
    job = read_job(text)
    nodes = dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), job.nodes)
    return {
        name: str(asked.number)
        for name, asked in {**nodes, "SLURM_GPUS_ON_NODE": job.gpus_per_node}.items()
        if asked is not None
    }
