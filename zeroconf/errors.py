"""The exceptions, each with the exit code that the command line gives it.

    ZeroconfError
    +-- InputError        usage, unreadable or invalid input, an output that exists    exit 2
    |   +-- UnavailableError  what this machine cannot know: another one may
    +-- NoPlanFits        no candidate fits the hardware                               exit 3
    +-- NoNumberFits      no number of GPUs of a type is enough                        exit 3
    +-- SmokeTestError    the smoke test could not run at all                          exit 4
    +-- VerificationError what generate chose does not fit or run when it is tried     exit 4
    +-- OutputError       a fault in zeroconf: what it made is not what it promises    exit 70

Messages are one sentence that names the cure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeroconf.types import Decision


class ZeroconfError(Exception):
    """Base of every error that the command line reports as one line."""

    exit_code = 2


class InputError(ZeroconfError):
    """Something that the user gave cannot be used."""


class UnavailableError(InputError):
    """What was given may be right, but not here: a model of the hub, the GPUs of the machine that trains."""


class NoPlanFits(ZeroconfError):  # noqa: N818  (DESIGN's name; it reads as the verdict it is)
    """No candidate fits; ``decision`` carries each rejected candidate, its limit, and the cures."""

    exit_code = 3

    def __init__(self, message: str, decision: Decision) -> None:
        super().__init__(message)
        self.decision = decision


class NoNumberFits(ZeroconfError):  # noqa: N818  (as above)
    """No number of GPUs that was tried fits comfortably."""

    exit_code = 3


class SmokeTestError(ZeroconfError):
    """The smoke test could not start: no DeepSpeed, launcher missing."""

    exit_code = 4


class VerificationError(ZeroconfError):
    """A generated configuration was tried, and does not fit or does not run."""

    exit_code = 4


class OutputError(ZeroconfError):
    """A file that zeroconf made fails its own checks: a fault to report, and no file is written."""

    exit_code = 70  # EX_SOFTWARE of sysexits.h
