"""One host's part of a run over several hosts: a command there, of which nothing is left.

    host.py FOLDER NAME NODE

FOLDER is on a file system that the hosts share. ``NAME.json`` in it lists for each node its ``command``, its
``environment``, the number of ``ranks`` that it has, and the host that all ``meet`` at. NODE is this host's number, or
the name of the variable by which a launcher tells it. A connection may be cut without either side noticing, so the
command ends when FOLDER/alive is gone or has not changed for a while, as it does with its launcher (guard.py). One that
fails leaves its code in ``NAME-failed-NODE``: pdsh goes on waiting for the other hosts, whose ranks wait for this one.
Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # mypy's names; this runs by path, where the siblings stand alone
    from zeroconf.smoke.worker.guard import run_guarded
else:
    from guard import run_guarded

LOST_SECONDS = 20.0
_READ_SECONDS = 0.5
_GRACE_SECONDS = 3.0
_SIOCGIFADDR = 0x8915  # linux/sockios.h
# torch's names for what Slurm tells a task (srun(1), output environment variables)
_OF_SLURM = {
    "RANK": "SLURM_PROCID",
    "LOCAL_RANK": "SLURM_LOCALID",
    "WORLD_SIZE": "SLURM_STEP_NUM_TASKS",
    "LOCAL_WORLD_SIZE": "SLURM_STEP_TASKS_PER_NODE",
}


class Heart:
    """Whether the file that the other side keeps writing is still written; a failing disk counts as silence."""

    def __init__(self, path: Path, lost_seconds: float = LOST_SECONDS) -> None:
        self._path, self._lost_seconds = path, lost_seconds
        self._text, self._heard, self._read = "", time.monotonic(), 0.0

    def beats(self) -> bool:
        """Reads it, not more often than makes sense on a shared file system."""
        now = time.monotonic()
        if now - self._read < _READ_SECONDS:
            return True
        self._read = now
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return False
        except OSError:
            text = self._text
        if text != self._text:
            self._text, self._heard = text, now
        return now - self._heard < self._lost_seconds


def interface_to(host: str) -> str:
    """The network interface by which a host is reached; empty when it is not known, or only leads here.

    Gloo would take the interface that has the address of this host's name, often the loopback.
    """
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # of a datagram socket: nothing is sent
        mine = probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()))
                if socket.inet_ntoa(answer[20:24]) == mine and not mine.startswith("127."):
                    return name
    return ""


def of_slurm(environment: dict[str, str]) -> dict[str, str]:
    """A task's place among the ranks, where srun started it."""
    found = {name: environment[slurm].partition("(")[0] for name, slurm in _OF_SLURM.items() if slurm in environment}
    if "," not in environment.get("CUDA_VISIBLE_DEVICES", ","):
        found["LOCAL_RANK"] = "0"  # the task sees no other GPU than its own
    return found


def main(arguments: list[str]) -> int:
    """Runs this node's command; its exit code."""
    folder, name, which = Path(arguments[0]), arguments[1], arguments[2]
    node = int(which if which.isdigit() else os.environ[which])
    try:
        plan = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))[node]
    except OSError as error:
        print(f"SharedFolderError: {platform.node()} does not have {folder}: {error.strerror}", file=sys.stderr)
        return 1
    environment = dict(os.environ) | plan["environment"]
    if which.startswith("SLURM"):
        environment |= of_slurm(environment)
    environment.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // plan["ranks"])))
    if environment.get("DS_ACCELERATOR") == "cpu" and (interface := interface_to(plan["meet"])):
        environment.setdefault("GLOO_SOCKET_IFNAME", interface)
    temporary = tempfile.mkdtemp(prefix="zeroconf-smoke-")
    heart, launcher = Heart(folder / "alive"), os.getppid()
    try:
        code = run_guarded(
            plan["command"],
            lambda: os.getppid() == launcher and heart.beats(),
            grace_seconds=_GRACE_SECONDS,
            environment=environment | {"TMPDIR": temporary},
        )
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    if code:
        with contextlib.suppress(OSError):  # the other side has gone, and its folder with it
            (folder / f"{name}-failed-{node}").write_text(str(code), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
