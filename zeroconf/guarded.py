"""Commands of which nothing is left, however they or this process end."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroconf.errors import SmokeTestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# run by path, as are the workers that it guards; it imports nothing of zeroconf
_GUARD = Path(__file__).parent / "smoke/worker/guard.py"
GRACE_SECONDS = 3.0
STOP_SECONDS = 15.0  # the guard's own grace is shorter
# DeepSpeed's runner answers SIGTERM over several hosts with `pkill -f "python -u -m deepspeed.launcher.launch"` on each
# (multinode_runner.py, PDSHRunner.get_cmd): every job that this user has there, not only ours
_NO_GRACE = "deepspeed.launcher.runner"


def guard_command(guard_python: str, scratch: Path, command: Sequence[str]) -> list[str]:
    """``command`` under the guard that ends its whole process tree with this process (worker/guard.py)."""
    grace_seconds = 0.0 if _NO_GRACE in command else GRACE_SECONDS
    return [guard_python, "-IS", str(_GUARD), str(os.getpid()), str(scratch), str(grace_seconds), *command]


def free_port() -> int:
    """A TCP port that was free a moment ago.

    Raises:
        SmokeTestError: all that Linux gives to connections are taken.
    """
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", 0))
        except OSError as error:
            msg = "no TCP port is free for the ranks to meet at; end what holds them (ss --tcp --all shows it)"
            raise SmokeTestError(msg) from error
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def guarded(
    command: list[str], scratch: Path, environment: Mapping[str, str], *, stdout: Any, stderr: Any
) -> Iterator[subprocess.Popen[str]]:
    """``command`` under the guard, in a session of its own, so that Ctrl-C reaches only this process."""
    process = subprocess.Popen(
        guard_command(sys.executable, scratch, command),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()
