"""The job around us: Slurm's environment, a DeepSpeed hostfile, or what torchrun set."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zeroconf.detect.machine import count, printable
from zeroconf.document.hostfile import read_hostfile
from zeroconf.errors import InputError
from zeroconf.inputs.text import is_file, read_text, shown, shown_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroconf.detect.machine import Machine

DEFAULT_HOSTFILE = "/job/hostfile"  # deepspeed/launcher/runner.py, DLTS_HOSTFILE
_HOSTFILE_LIMIT_BYTES = 4_000_000
_MOST_HOSTS = 100_000
_GROUP = re.compile(r"\[([0-9,\-]*)\]")
_SLICE = re.compile(r"\d+g\.\d+gb", re.IGNORECASE)  # a MIG profile
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_TYPED_COUNT = re.compile(r"(?:gpu:)?(?:([A-Za-z][\w.\-]*):)?(\d{1,6})(?:\(S:[\d,\-]*\))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The nodes of the job that we are part of; None is unknown. ``source`` says who told the number of nodes."""

    num_nodes: int | None = None
    hosts: tuple[str, ...] = ()
    gpus_per_node: int | None = None
    gpu_type: str = ""
    memory_bytes: int | None = None
    source: str = ""
    gpus_source: str = ""
    memory_source: str = ""
    notes: tuple[str, ...] = ()


def find_job(machine: Machine, hostfile: str | None = None) -> Job:
    """The job by the hostfile that is named, else by Slurm, torchrun, or the hostfile that DeepSpeed looks for.

    Raises:
        InputError: the hostfile cannot be read, or DeepSpeed would refuse it.
    """
    environment = machine.environment
    if hostfile is not None:
        return hostfile_job(Path(hostfile))
    if "SLURM_JOB_ID" in environment or "SLURM_JOBID" in environment:
        return slurm_job(environment)
    if (job := _torchrun_job(environment)) is not None:
        return job
    default = machine.path(DEFAULT_HOSTFILE)
    return hostfile_job(default) if is_file(default) else Job()


def slurm_job(environment: Mapping[str, str]) -> Job:
    """The allocation that Slurm's output environment variables describe (sbatch(1), srun(1))."""
    get = environment.get
    notes = []
    listed = get("SLURM_JOB_NODELIST") or get("SLURM_NODELIST") or ""
    hosts = expand(listed) or ()
    source, num_nodes = "SLURM_JOB_NUM_NODES", count(get("SLURM_JOB_NUM_NODES") or get("SLURM_NNODES"))
    if not num_nodes or num_nodes > _MOST_HOSTS:
        source, num_nodes = "SLURM_JOB_NODELIST", len(hosts) or None
    gpus_source, gpu_type, gpus = _slurm_gpus(environment)
    if _SLICE.search(gpu_type):
        notes.append(f"Slurm counts parts of GPUs ({gpu_type}), which collectives cannot join")
        gpus_source, gpu_type, gpus = "", "", None
    memory_source, memory_bytes = _slurm_memory(environment, gpus)
    if (count(get("SLURM_HET_SIZE")) or 0) > 1:
        notes.append("the Slurm job is heterogeneous: these are the nodes of one component")
    if hosts and num_nodes and num_nodes != len(hosts):
        notes.append(f"SLURM_JOB_NODELIST names {len(hosts)} nodes, {source} says {num_nodes}")
    if num_nodes and "SLURMD_NODENAME" not in environment:
        notes.append(
            "this shell is on none of the Slurm job's nodes (there is no SLURMD_NODENAME), and what was found is this "
            "machine's; run it there: srun --ntasks 1 zeroconf detect"
        )
    return Job(
        num_nodes=num_nodes,
        hosts=hosts,
        gpus_per_node=gpus,
        gpu_type=gpu_type,
        memory_bytes=memory_bytes,
        source=source if num_nodes else "",
        gpus_source=gpus_source,
        memory_source=memory_source,
        notes=tuple(notes),
    )


def _slurm_gpus(environment: Mapping[str, str]) -> tuple[str, str, int | None]:
    """Who told the number of GPUs of this node, their type as the site calls it, and the number."""
    counts = {}
    for name in ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"):
        if match := _TYPED_COUNT.fullmatch(environment.get(name, "")):
            counts[name] = match[1] or "", int(match[2])
    gpu_type = next((kind for kind, _ in counts.values() if kind), "")
    for name, (_, number) in counts.items():
        if number > 0:
            return name, gpu_type, number
    for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        indexes = _indexes(environment.get(name, ""))
        if indexes:
            return name, gpu_type, len(indexes)
    return "", gpu_type, None


def _slurm_memory(environment: Mapping[str, str], gpus: int | None) -> tuple[str, int | None]:
    """Who told the memory of this node's part of the job, and its bytes; zero asks for all of it."""
    for name, times in (
        ("SLURM_MEM_PER_NODE", 1),
        ("SLURM_MEM_PER_CPU", count(environment.get("SLURM_CPUS_ON_NODE"))),
        ("SLURM_MEM_PER_GPU", gpus),
    ):
        megabytes = count(environment.get(name))
        if megabytes and times:
            return name, megabytes * times * 2**20
    return "", None


def expand(nodelist: str) -> tuple[str, ...] | None:
    """The hosts of Slurm's notation: ``gpu[01-03,07],login`` is gpu01 gpu02 gpu03 gpu07 login; None when it is none."""
    hosts: list[str] = []
    for part in _split_outside_brackets(nodelist):
        expanded = [""]
        position = 0
        for group in _GROUP.finditer(part):
            indexes = _indexes(group[1])
            if not indexes or len(expanded) * len(indexes) > _MOST_HOSTS:
                return None
            literal = part[position : group.start()]
            expanded = [f"{host}{literal}{index}" for host in expanded for index in indexes]
            position = group.end()
        rest = part[position:]
        if set(_GROUP.sub("", part)) & set("[]") or not part or len(hosts) + len(expanded) > _MOST_HOSTS:
            return None
        hosts += [f"{host}{rest}" for host in expanded]
    return tuple(hosts)


def _split_outside_brackets(text: str) -> list[str]:
    return re.split(r",(?![^\[\]]*\])", text) if text else []


def _indexes(text: str) -> list[str] | None:
    """``01-03,07`` as 01, 02, 03, 07 with their zeros; None when it is no such list."""
    found: list[str] = []
    for part in text.split(",") if text else []:
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= _MOST_HOSTS:
            return None
        found += [str(index).zfill(len(match[1])) for index in range(first, last + 1)]
    return found


def _torchrun_job(environment: Mapping[str, str]) -> Job | None:
    world, local = count(environment.get("WORLD_SIZE")), count(environment.get("LOCAL_WORLD_SIZE"))
    if not world or not local or world % local or "RANK" not in environment:
        return None
    return Job(num_nodes=world // local, source="WORLD_SIZE and LOCAL_WORLD_SIZE")


def hostfile_slots(path: Path) -> dict[str, int]:
    """The slots of each host of a DeepSpeed hostfile, in its order.

    Raises:
        InputError: it cannot be read, or DeepSpeed refuses it.
    """
    text = read_text(path, _HOSTFILE_LIMIT_BYTES)
    root, marks = read_hostfile(text)
    if marks:
        wrong = {
            "bad-entry": "is no entry; write it like: node-1 slots=8",
            "duplicate": f"names {shown(marks[0].detail)} a second time; name each host once",
            "empty": "and no other names a host; write one like: node-1 slots=8",
        }
        line = text.count("\n", 0, marks[0].start) + 1
        msg = f"hostfile {shown_path(path)}: line {line} {wrong.get(marks[0].what, 'is not understood')}"
        raise InputError(msg)
    return {member.key: count(str(member.node.value)) or 0 for member in root.members}


def hostfile_job(path: Path) -> Job:
    """The hosts of a DeepSpeed hostfile, with the slots of each.

    Raises:
        InputError: it cannot be read, or DeepSpeed refuses it.
    """
    where = shown_path(path)
    hosts, slots = zip(*hostfile_slots(path).items(), strict=True)
    gpus = max(set(slots), key=lambda number: (slots.count(number), number))
    notes = []
    if len(set(slots)) > 1:
        odd = next(host for host, number in zip(hosts, slots, strict=True) if number != gpus)
        notes.append(
            f"the hostfile's hosts have different slots ({printable(odd)} not {gpus}); an inventory needs equal nodes,"
            f" so it counts the {slots.count(gpus)} with {gpus}"
        )
    return Job(
        num_nodes=slots.count(gpus),
        hosts=hosts,
        gpus_per_node=gpus or None,
        source=where,
        gpus_source=where,
        notes=tuple(notes),
    )
