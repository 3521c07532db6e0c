"""Runs one command and leaves nothing behind.

    guard.py PARENT_PID SCRATCH GRACE_SECONDS COMMAND...

Launchers start their ranks in sessions of their own, and a killed launcher orphans them. The guard adopts
such orphans (Linux: PR_SET_CHILD_SUBREAPER) and ends the whole process tree when the command ends, when it
gets SIGTERM, SIGINT or SIGHUP, or when its parent dies, however it dies; then it removes SCRATCH too.
The command has GRACE_SECONDS for ending by itself on SIGTERM; with 0 it gets none. Exits with the command's
code, 128 + n for signal n. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.1


def process_control(option: int, value: int) -> None:
    """Linux ``prctl(option, value)``; nothing elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _die_with_guard() -> None:
    process_control(PR_SET_PDEATHSIG, signal.SIGKILL)


def descendants(root: int) -> list[int]:
    """All living processes below ``root``, by /proc; empty where there is none."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            # the command name, in parentheses, may hold blanks
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(stat.parent.name))
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def end_tree(command: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """SIGTERM for the command, a moment of grace, SIGKILL for everything that is left of its tree."""
    if command.poll() is None and grace_seconds:
        command.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            command.wait(grace_seconds)
    if command.poll() is None:
        command.kill()
        command.wait()
    while left := descendants(os.getpid()):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS / 10)
        _reap()
    _reap()


def run_guarded(
    command_line: list[str],
    goes_on: Callable[[], bool],
    *,
    grace_seconds: float,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Runs a command until it ends, a signal comes, or ``goes_on`` says no; ends its tree; its exit code."""
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: stopped.append(received))
    process_control(PR_SET_CHILD_SUBREAPER, 1)
    # the guard has one thread, so that preexec_fn is safe here
    command = subprocess.Popen(command_line, env=environment, preexec_fn=_die_with_guard)  # noqa: PLW1509
    while command.poll() is None and not stopped and goes_on():
        time.sleep(POLL_SECONDS)
    end_tree(command, grace_seconds)
    code = command.returncode
    return 128 - code if code < 0 else code


def main(arguments: list[str]) -> int:
    """Runs the command; its exit code."""
    parent, scratch, grace_seconds = int(arguments[0]), arguments[1], float(arguments[2])
    code = run_guarded(arguments[3:], lambda: os.getppid() == parent, grace_seconds=grace_seconds)
    if os.getppid() != parent:
        shutil.rmtree(scratch, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
