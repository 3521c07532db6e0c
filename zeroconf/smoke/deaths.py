"""How processes ended that left no result: their exit codes, as launchers report them in the log.

Only whole lines of the launchers count; a program may print the same words.
"""

from __future__ import annotations

import re
import signal
from typing import Final, NamedTuple

_HOST: Final = r"^(?:[^\s:]+: )?"  # pdsh puts it before each line
# torch/distributed/elastic/multiprocessing/errors/__init__.py: _FAILURE_FORMAT_TEMPLATE; the first failure stands last
_TORCHRUN: Final = re.compile(
    rf"{_HOST} *rank +: (\d+) \(local_rank: \d+\)\n(?:[^\s:]+: )? *exitcode\s*: (-?\d+) \(pid: \d+\)",
    re.MULTILINE,
)
# deepspeed/launcher/launch.py: sigkill_handler
_DEEPSPEED: Final = re.compile(
    rf"{_HOST}.*\[launch\.py:\d+:sigkill_handler\] .* exits with return code = (-?\d+)$", re.MULTILINE
)
_SRUN: Final = re.compile(r"^srun: error: [^\s:]+: tasks? ([\d,-]+): Exited with exit code (\d+)$", re.MULTILINE)
_SRUN_SIGNAL: Final = re.compile(
    r"^srun: error: [^\s:]+: tasks? ([\d,-]+): (Killed|Segmentation fault|Aborted|Bus error)\b", re.MULTILINE
)
_SLURM_MEMORY: Final = re.compile(r"^slurmstepd: error: Detected \d+ oom[-_]kill event", re.MULTILINE)
_NAMES: Final = {
    "Killed": signal.SIGKILL,
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
}


class Death(NamedTuple):
    """``code`` is minus the signal, or an exit code; ``rank`` None where the launcher does not say which."""

    rank: int | None
    code: int

    @property
    def signal_name(self) -> str:
        """Like ``SIGSEGV``; empty where it ended by itself."""
        if self.code >= 0:
            return ""
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"


def own_death(rank: int | None, exit_code: int) -> Death:
    """That of a process under a guard or a shell, which make 128 + n of signal n."""
    by_signal = 128 < exit_code <= 128 + max(signal.valid_signals())
    return Death(rank, 128 - exit_code if by_signal else exit_code)


def reported_death(log: str) -> Death | None:
    """The rank that ended first by what its launcher wrote; None where none is said to have ended badly."""
    if found := _TORCHRUN.findall(log):
        rank, code = found[-1]
        return Death(int(rank), int(code))
    if found := _DEEPSPEED.findall(log):
        return own_death(None, int(found[0]))
    if _SLURM_MEMORY.search(log):
        return Death(None, -signal.SIGKILL)
    if by_signal := _SRUN_SIGNAL.findall(log):
        task, name = by_signal[0]
        return Death(_rank(task), -_NAMES[name])
    if found := _SRUN.findall(log):
        task, code = found[0]
        return own_death(_rank(task), int(code))
    return None


def _rank(task: str) -> int | None:
    return int(task) if task.isdigit() else None
