"""What one rank knows about itself, kept on disk at every moment, so that a dead rank has said where it was."""

from __future__ import annotations

import json
import os
import sysconfig
import time
import traceback
from pathlib import Path
from typing import Any

# exceptions by which DeepSpeed, Accelerate and pydantic (a ValueError) refuse a configuration
_REFUSALS = (AssertionError, KeyError, NotImplementedError, TypeError, ValueError)
LONGEST_MESSAGE = 2000
_LIBRARIES = {"deepspeed", "accelerate", "transformers"}
_HERE = str(Path(__file__).parent)
_NOBODYS = ("<frozen", sysconfig.get_path("stdlib"))
_HOST_MEMORY = ("can't allocate memory", "Cannot allocate memory", "std::bad_alloc", "cannot pin")


class InjectedCrashError(RuntimeError):
    """Raised on purpose: see ``Record.enter``."""


class Record:
    """One rank's file ``rank-N.json``, replaced whole at every change.

    ``state`` is running, done or failed; ``phase`` and ``step`` say where the rank is.
    """

    def __init__(self, folder: str, rank: int) -> None:
        self._path = Path(folder) / f"rank-{rank}.json"
        self.values: dict[str, Any] = {"rank": rank, "state": "running", "phase": "start", "step": 0}
        self.values["substitutions"] = []
        self.values["environment"] = {}
        self.save()

    def save(self) -> None:
        """Writes the file, atomically."""
        partial = self._path.with_suffix(".part")
        partial.write_text(json.dumps(self.values), encoding="utf-8")
        partial.replace(self._path)

    def enter(self, phase: str, step: int = 0) -> None:
        """Notes that a phase begins.

        For tests of what happens when a rank fails: ``ZEROCONF_INJECT=<what>@<rank>:<phase>`` makes this
        rank fail here, with <what> one of crash, oom, hang, or killed (SIGKILL, as the kernel's OOM killer).
        """
        self.values |= {"phase": phase, "step": step, "entered_at": time.time()}
        self.save()
        what, _, where = os.environ.get("ZEROCONF_INJECT", "").partition("@")
        if where == f"{self.values['rank']}:{phase}":
            _inject(what)

    def fail(self, error: BaseException, unsupported: str = "") -> None:
        """Notes how the rank failed: oom, host-oom, rejected or crash; or why a dry run is unsupported."""
        self.values |= {
            "state": "failed",
            "outcome": "unsupported" if unsupported else classify(error, self.values["phase"]),
            "message": (unsupported or describe(error))[:LONGEST_MESSAGE],
            "raised": True,
            "by_library": by_library(error),
            "failed_at": time.time(),
        }
        self.save()

    def give_up(self, outcome: str, message: str) -> None:
        """Notes that a user's program ended before its steps were done, without raising anything."""
        self.values |= {"state": "failed", "outcome": outcome, "message": message[:LONGEST_MESSAGE]}
        self.values |= {"failed_at": time.time(), "raised": False, "by_library": False}
        self.save()


def _inject(what: str) -> None:
    if what == "oom":
        import torch

        msg = "CUDA out of memory. Tried to allocate 2.00 GiB. (injected)"
        raise torch.cuda.OutOfMemoryError(msg)
    if what == "killed":
        os.kill(os.getpid(), 9)
    if what == "hang":
        time.sleep(86_400)
    msg = "injected crash"
    raise InjectedCrashError(msg)


def describe(error: BaseException) -> str:
    """Type and text of an error; of a validation error each field and its complaint."""
    if callable(errors := getattr(error, "errors", None)):
        try:
            fields = [f"{'.'.join(map(str, item['loc']))}: {item['msg']} ({item['type']})" for item in errors()]
        except (KeyError, TypeError):
            fields = []
        if fields:
            return f"{type(error).__name__}: {'; '.join(fields)}"
    return f"{type(error).__name__}: {str(error).strip()}".removesuffix(": ")


def classify(error: BaseException, phase: str) -> str:
    """How the rank failed, from the error and the phase it was raised in.

    Refusals count as rejected while the configuration is parsed, and in ``init`` when DeepSpeed, Accelerate
    or transformers raised them; elsewhere a ValueError is a crash like any other.
    """
    text = str(error)
    if "CUDA out of memory" in text or type(error).__name__ == "OutOfMemoryError":
        return "oom"
    if isinstance(error, MemoryError) or any(sign in text for sign in _HOST_MEMORY):
        return "host-oom"
    own = type(error).__module__.startswith("deepspeed")
    if phase == "config" and not isinstance(error, ImportError):
        return "rejected"
    if phase == "init" and (own or (isinstance(error, _REFUSALS) and _raised_by_library(error))):
        return "rejected"
    return "crash"


def by_library(error: BaseException) -> bool:
    """Whether DeepSpeed, Accelerate, Transformers or this worker raised it, and not a user's own program.

    What those, or a program, called for it (torch, pydantic, Python's own) is passed over.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        path = frame.f_code.co_filename
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _LIBRARIES or path.startswith(_HERE):
            return True
        if not path.startswith(_NOBODYS) and "-packages/" not in path:
            return False
    return True


def _raised_by_library(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and any(name in frames[-1].filename for name in ("deepspeed", "accelerate", "pydantic"))
