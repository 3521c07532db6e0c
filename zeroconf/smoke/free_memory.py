"""How much host memory was free while ranks ran on this machine: whether the kernel had a reason to kill one."""

from __future__ import annotations

from zeroconf.detect.host import free_memory, host_memory
from zeroconf.detect.machine import this_machine

# a share of what there is; less can go between two looks
_PLENTY = 0.25


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

    def look(self) -> None:
        """Notes what is free now."""
        free = free_memory(self._machine, self._memory)
        if free is not None:
            self.least = free if self.least is None else min(self.least, free)
