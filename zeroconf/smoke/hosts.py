"""A smoke test on several hosts: who they are, and the commands that start something on each.

The hosts share the folder of the run, and everything crosses by it: what each host is to do (worker/host.py), the
ranks' records, and the sign that this side is alive. A remote process does not reliably learn that its connection was
cut, so a host ends its part when that sign stops.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroconf.detect.jobs import hostfile_slots, slurm_job
from zeroconf.detect.machine import count
from zeroconf.errors import InputError, SmokeTestError
from zeroconf.guarded import guarded
from zeroconf.inputs.text import shown_path
from zeroconf.smoke.command import WORKER, Launcher, rank_command
from zeroconf.smoke.folders import repeated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_BEAT_SECONDS = 1.0
_END_SECONDS = 8.0  # hosts look for the sign twice a second, then give their ranks a grace of 3 seconds
_ITSELF = frozenset({"localhost", "127.0.0.1", "::1"})
_COMMUNICATION = ("FI_", "GLOO_", "NCCL_", "TORCH_NCCL_", "UCX_")
_PORTS = range(20_000, 30_000)  # below the ports that Linux gives to outgoing connections


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of a run, and how many ranks each has. Without ``hostfile`` they are the Slurm job's.

    ``cpus`` are those of Slurm's job on each host; None where it does not say.
    """

    slots: Mapping[str, int]
    hostfile: Path | None = None
    cpus: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of the ranks."""
        return tuple(self.slots)

    @property
    def num_ranks(self) -> int:
        """Of all hosts."""
        return sum(self.slots.values())

    @property
    def meeting_place(self) -> str:
        """The first host's name without a user."""
        return self.names[0].rpartition("@")[2]


def find_hosts(launcher: Launcher, hostfile: Path | None, per_host: int | None) -> Hosts | None:
    """The hosts that the options mean; None is this machine alone.

    Raises:
        InputError: the hostfile cannot be used by this launcher, there is no allocation, or a program is missing.
    """
    if launcher == "srun":
        if hostfile is not None:
            msg = "--hostfile has no effect here: srun starts the ranks on the Slurm job's own nodes; leave it out"
            raise InputError(msg)
        return _of_slurm(os.environ, per_host)
    if hostfile is None:
        return None
    if per_host is not None:
        msg = "--num-gpus has no effect here: the hostfile's slots are the ranks on each host; leave it out"
        raise InputError(msg)
    if launcher == "accelerate":
        msg = "accelerate launch starts the ranks of one machine; with --hostfile use --launcher deepspeed or torchrun"
        raise InputError(msg)
    slots = _checked(hostfile_slots(hostfile), f"hostfile {shown_path(hostfile)}", launcher)
    _need("ssh", "the hosts of a hostfile are reached by it")
    if launcher == "deepspeed":
        _need("pdsh", "DeepSpeed's launcher reaches several hosts by it; or use --launcher torchrun")
    return Hosts(slots, hostfile.absolute())


def _checked(slots: dict[str, int], where: str, launcher: Launcher) -> dict[str, int]:
    """The same, when the launcher starts on each host what the file says."""
    if (empty := next((host for host, number in slots.items() if not number), None)) is not None:
        msg = f"{where}: {empty} has no slots; give it one for each GPU, or delete the line"
        raise InputError(msg)
    if len(slots) > 1 and (own := next((host for host in slots if host in _ITSELF), None)):
        msg = f"{where}: {own} is another machine on each host; write the name by which all know it"
        raise InputError(msg)
    if launcher == "deepspeed" and len(slots) == 1:
        msg = f"{where} names one host, and DeepSpeed's launcher then starts the ranks on this machine; run it on that "
        msg += "host without --hostfile, or use --launcher torchrun"
        raise InputError(msg)
    return slots


def _need(program: str, why: str) -> None:
    if shutil.which(program) is None:
        msg = f"{program} is not on PATH; install it: {why}"
        raise InputError(msg)


def _of_slurm(environment: Mapping[str, str], per_host: int | None) -> Hosts:
    if "SLURM_JOB_ID" not in environment:
        msg = "--launcher srun needs a Slurm allocation; run it in an sbatch script, or in a shell of salloc"
        raise InputError(msg)
    _need("srun", "it starts the ranks of a Slurm job")
    job = slurm_job(environment)
    if not job.hosts:
        msg = "SLURM_JOB_NODELIST does not say which nodes this Slurm job has; run it in an sbatch script, or in salloc"
        raise InputError(msg)
    ranks = per_host or job.gpus_per_node
    if not ranks:
        msg = "Slurm does not say how many GPUs a node of this job has; give --num-gpus, the ranks on each node"
        raise InputError(msg)
    return Hosts(dict.fromkeys(job.hosts, ranks), cpus=count(environment.get("SLURM_CPUS_ON_NODE")) or None)


def write_plan(
    hosts: Hosts, folder: Path, name: str, commands: Sequence[Sequence[str]], environments: Sequence[Mapping[str, str]]
) -> None:
    """What each host is to do, for worker/host.py."""
    plan = [
        {"command": command, "environment": environment, "ranks": ranks, "meet": hosts.meeting_place}
        for command, environment, ranks in zip(commands, environments, hosts.slots.values(), strict=True)
    ]
    (folder / f"{name}.json").write_text(json.dumps(plan), encoding="utf-8")


def everywhere(hosts: Hosts, python: str, folder: Path, name: str) -> list[str]:
    """The command that runs the plan's command once on each host."""
    if hosts.hostfile is None:
        return _srun(hosts, [python, str(WORKER / "host.py"), str(folder), name, "SLURM_NODEID"], per_host=1)
    return [sys.executable, "-IS", str(WORKER / "over_ssh.py"), python, str(folder), name, *hosts.names]


def host_commands(hosts: Hosts, launcher: Launcher, python: str, folder: Path, port: int) -> list[list[str]]:
    """What runs on each host: a rank, or the torchrun that starts the host's ranks."""
    rank = rank_command(folder)
    if launcher != "torchrun":
        return [[python, *rank] for _ in hosts.names]
    meet = f"--rdzv-endpoint={hosts.meeting_place}:{port}"
    return [
        [
            *(python, "-m", "torch.distributed.run", f"--nnodes={len(hosts.names)}", f"--nproc-per-node={ranks}"),
            *("--rdzv-backend=c10d", meet, f"--rdzv-id={folder.name}"),
            # torchrun compares names to find out whether it is the host of the rendezvous, and may not recognise itself
            f"--rdzv-conf=is_host={str(node == 0).lower()}",
            f"--local-addr={host.rpartition('@')[2]}",
            *rank,
        ]
        for node, (host, ranks) in enumerate(hosts.slots.items())
    ]


def ranks_command(hosts: Hosts, launcher: Launcher, python: str, folder: Path, name: str, port: int) -> list[str]:
    """The command that starts all ranks by the plan."""
    worker = [str(WORKER / "host.py"), str(folder), name]
    if launcher == "deepspeed":
        where = [f"--hostfile={hosts.hostfile}", f"--master_port={port}", "--no_local_rank"]
        return [python, "-m", "deepspeed.launcher.runner", *where, *worker, "CROSS_RANK"]
    if launcher == "srun":
        per_host = next(iter(hosts.slots.values()))
        return _srun(hosts, [python, *worker, "SLURM_NODEID"], per_host=per_host)
    return everywhere(hosts, python, folder, name)


def _srun(hosts: Hosts, command: list[str], *, per_host: int) -> list[str]:
    nodes = len(hosts.names)
    step = [f"--nodes={nodes}", f"--ntasks={nodes * per_host}", f"--ntasks-per-node={per_host}"]
    if hosts.cpus is not None:
        # since Slurm 22.05 a step no longer inherits the job's number of each task
        step.append(f"--cpus-per-task={max(1, hosts.cpus // per_host)}")
        step += ["--overcommit"] if hosts.cpus < per_host else []
    # overlap: the shell that we run in may be a step itself, and hold what the job has
    rest = ["--overlap", "--export=ALL", "--input=none", "--unbuffered", "--cpu-bind=none", "--kill-on-bad-exit=1"]
    return ["srun", *step, *rest, *command]


def environment_of_ranks(hosts: Hosts, launcher: Launcher, port: int) -> dict[str, str]:
    """What the ranks need and their launcher does not tell them.

    DeepSpeed's launcher brings NCCL's variables to its hosts (runner.py, EXPORT_ENVS), srun all; ssh brings none.
    """
    if launcher == "srun":
        return {"MASTER_ADDR": hosts.meeting_place, "MASTER_PORT": str(port)}
    if launcher == "deepspeed":
        return {}
    return {name: value for name, value in os.environ.items() if name.startswith(_COMMUNICATION)}


def failed_codes(folder: Path, name: str) -> list[int]:
    """The exit codes of the hosts' parts that failed so far."""
    with contextlib.suppress(OSError, ValueError):  # one is being written
        return [int(path.read_text(encoding="utf-8")) for path in folder.glob(f"{name}-failed-*")]
    return []


def likely_free_port() -> int:
    """A TCP port that is free here and, as it is drawn by chance, probably on the first host too."""
    for port in random.sample(_PORTS, 20):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return port
    msg = f"no free TCP port was found between {_PORTS.start} and {_PORTS.stop}; end what listens there"
    raise SmokeTestError(msg)


@contextlib.contextmanager
def guarded_on_hosts(
    command: list[str], folder: Path, environment: Mapping[str, str], *, stdout: Any, stderr: Any
) -> Iterator[subprocess.Popen[str]]:
    """As ``guarded``, with the sign of life. At the end the hosts' parts end by it; a killed ssh could not end them."""
    sign = folder / "alive"
    sign.write_text("0", encoding="utf-8")
    with guarded(command, folder, environment, stdout=stdout, stderr=stderr) as process:
        try:
            with _beating(sign):
                yield process
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)


@contextlib.contextmanager
def _beating(sign: Path) -> Iterator[None]:
    beats = itertools.count(1)

    def beat() -> None:
        with contextlib.suppress(OSError):  # on a full disk the hosts end by the silence
            sign.write_text(str(next(beats)), encoding="utf-8")

    try:
        with repeated(beat, _BEAT_SECONDS):
            yield
    finally:
        sign.unlink(missing_ok=True)
