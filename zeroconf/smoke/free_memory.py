"""How much host memory was free while ranks ran on this machine: whether the kernel had reason to kill, or will."""

from __future__ import annotations

from zeroconf.detect.host import free_memory, host_memory
from zeroconf.detect.machine import this_machine
from zeroconf.smoke.outcome import Verdict
from zeroconf.units import gib

# a share of what there is; less can go between two looks
_PLENTY = 0.25
# times what there is: beyond the estimate's error, and what a swap file takes
_HOPELESS = 1.25
_CURE = "run it on GPUs; or try the launcher with --model tiny, or the memory with --dry-run, which takes little here"


class FreeMemory:
    """The least that was seen free, in bytes; ``least`` None is unknown."""

    def __init__(self) -> None:
        self._machine = this_machine()
        self._memory = host_memory(self._machine)
        self.least: int | None = None
        self.look()

    @property
    def plenty(self) -> bool:
        """Whether so much was free all the time that a lack of it is unlikely."""
        usable = self._memory.usable_bytes
        return self.least is not None and usable is not None and self.least > _PLENTY * usable

    def refusal(self, num_processes: int, needed_bytes: int) -> Verdict | None:
        """The verdict on ranks that need far more than there is, before one is started."""
        usable = self._memory.usable_bytes
        if usable is None or needed_bytes <= _HOPELESS * usable:
            return None
        who = "the rank needs" if num_processes == 1 else f"the {num_processes} ranks need"
        why = f"{who} about {gib(needed_bytes)} of host memory and there are {gib(usable)}: none was started"
        return Verdict("host-oom", why, _CURE)

    def look(self) -> None:
        """Notes what is free now."""
        free = free_memory(self._machine, self._memory)
        if free is not None:
            self.least = free if self.least is None else min(self.least, free)
