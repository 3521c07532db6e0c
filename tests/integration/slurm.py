"""A Slurm of two nodes, the network namespaces of two_hosts.py: real daemons that keep everything in one folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from two_hosts import ADDRESSES, NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from two_hosts import TwoHosts

PROGRAMS = ("munged", "slurmctld", "slurmd", "salloc", "srun")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_CONFIGURATION = """
ClusterName=zeroconf
SlurmctldHost={first}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
MailProg=/bin/true
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def has_slurm() -> bool:
    """Whether Slurm's daemons are installed."""
    return all(shutil.which(program, path=_PATH) for program in PROGRAMS)


@contextlib.contextmanager
def slurm(hosts: TwoHosts) -> Iterator[Path]:
    """The configuration's path; the daemons run meanwhile."""
    folder = hosts.folder / "slurm"
    (folder / "munge").mkdir(parents=True)
    (folder / "state").mkdir()
    (folder / "munge").chmod(0o755)
    key = folder / "munge/key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    cpus = os.cpu_count() or 1
    nodes = [f"NodeName={n} NodeAddr={a} CPUs={cpus} State=UNKNOWN" for n, a in zip(NAMES, ADDRESSES, strict=True)]
    path = folder / "slurm.conf"
    path.write_text(
        _CONFIGURATION.format(first=NAMES[0], address=ADDRESSES[0], folder=folder, nodes="\n".join(nodes)),
        encoding="utf-8",
    )
    munge = f"--key-file={key} --socket={folder}/munge/socket --pid-file={folder}/munge/pid --seed-file={folder}/seed"
    daemons = [
        (NAMES[0], "munged", f"munged --foreground --force {munge} --log-file={folder}/munge/log"),
        (NAMES[0], "slurmctld", f"slurmctld -D -i -f {path}"),
        *((name, f"slurmd-{name}", f"slurmd -D -f {path}") for name in NAMES),
    ]
    with contextlib.ExitStack() as stack:
        for host, name, command in daemons:
            pid = folder / f"{name}.started"
            shell = f"export PATH={_PATH}; echo $$ > {pid}; exec {command} > {folder}/{name}.log 2>&1"
            ssh = subprocess.Popen([hosts.folder / "ssh", host, shell])
            stack.callback(_end, pid, ssh)
        _wait(path)
        yield path


def _wait(path: Path) -> None:
    environment = os.environ | {"SLURM_CONF": str(path)}
    deadline = time.monotonic() + 30
    ready = ""
    while ready.split() != ["idle"] * len(NAMES) and time.monotonic() < deadline:
        time.sleep(0.2)
        command = [str(path.parents[1] / "ssh"), NAMES[0], f"SLURM_CONF={path} sinfo --noheader --Node --format=%t"]
        ready = subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout
    assert ready.split() == ["idle"] * len(NAMES)


def _end(pid: Path, ssh: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.kill(int(pid.read_text(encoding="utf-8")), signal.SIGTERM)
    try:
        ssh.wait(10)
    except subprocess.TimeoutExpired:
        os.kill(int(pid.read_text(encoding="utf-8")), signal.SIGKILL)
        ssh.wait()
