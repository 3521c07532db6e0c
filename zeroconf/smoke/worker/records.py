"""What one rank knows about itself, kept on disk at every moment, so that a dead rank has said where it was."""

from __future__ import annotations

import json
import os
import re
import sysconfig
import time
import traceback
from pathlib import Path
from typing import Any

RENDEZVOUS = "torch.distributed's rendezvous"  # a phase: where ranks wait until all have come
# exceptions by which DeepSpeed, Accelerate and pydantic (a ValueError) refuse a configuration
_REFUSALS = (AssertionError, KeyError, NotImplementedError, TypeError, ValueError)
LONGEST_MESSAGE = 2000
_LIBRARIES = {"deepspeed", "accelerate", "transformers"}
# before the first forward. In init all that DeepSpeed and Accelerate refuse is the configuration; elsewhere what is
# raised here, as module:function
_EARLY = ("the script", "architecture", "build", "init")
_IN_INIT = re.compile(r"(deepspeed|accelerate)\b")
_ATTENTION = r"transformers\.modeling_utils:\w*(attn|attention|sdpa)|architecture:attend"
_CONFIGURING = re.compile(
    r"deepspeed\.(\w+\.)*\w*config\w*:|deepspeed\.runtime\.zero\.partition_parameters:__init__|"
    r"accelerate\.utils\.(dataclasses|deepspeed):|accelerate\.(accelerator|state):(__init__|_?prepare)|"
    r"transformers\.training_args:|transformers\.integrations\.deepspeed:(?!deepspeed_load_checkpoint)|"
    rf"transformers\.trainer:(create_accelerator|_build_accelerator)|{_ATTENTION}"
)
_HERE = str(Path(__file__).parent)
_NOBODYS = ("<frozen", sysconfig.get_path("stdlib"))
_HOST_MEMORY = ("can't allocate memory", "Cannot allocate memory", "std::bad_alloc", "cannot pin")
_LOSS_SCALE = "loss scale already at minimum"  # deepspeed/runtime/fp16/loss_scaler.py


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

    def enter(self, phase: str, step: int = 0, *, after: int = 0) -> None:
        """Notes that a phase begins; ``after`` is a step that was done, while a program did not go on to the next.

        For tests of what happens when a rank fails: ``ZEROCONF_INJECT=<what>@<rank>:<phase>`` makes this
        rank fail here, with <what> one of crash, oom, hang, or killed (SIGKILL, as the kernel's OOM killer).
        """
        self.values |= {"phase": phase, "step": step, "after": after, "entered_at": time.time()}
        self.save()
        what, _, where = os.environ.get("ZEROCONF_INJECT", "").partition("@")
        if where == f"{self.values['rank']}:{phase}":
            _inject(what)

    def fail(self, error: BaseException, unsupported: str = "") -> None:
        """Notes how the rank failed: oom, host-oom, not-finite, rejected or crash; or why a dry run is unsupported."""
        self.values |= {
            "state": "failed",
            "outcome": "unsupported" if unsupported else classify(error, self.values["phase"]),
            "message": (unsupported or describe(error))[:LONGEST_MESSAGE],
            "raised": True,
            "by_library": by_library(error),
            "failed_at": time.time(),
        }
        self.save()

    def end(self, steps: int) -> None:
        """Notes that a user's program was ended, or ended, after some of its ``steps`` or more."""
        skipped = self.values.get("skipped", {"not_finite": 0, "first": None, "losses": []})
        missing = len(self.values.get("step_seconds", ())) < steps
        if missing and (skipped["not_finite"] or skipped["first"]):
            self.values["losses"] += skipped["losses"]
            self.give_up("not-finite", "")
        else:
            self.values |= {"state": "done", "phase": "done"}
            self.save()

    def give_up(self, outcome: str, message: str) -> None:
        """Notes that a user's program came to an end without what was wanted of it, and raised nothing."""
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

    What DeepSpeed, Accelerate or Transformers refuse of a configuration is rejected: anything while it is parsed, and
    until the first forward what their own configuring code raises; elsewhere a ValueError is a crash like any other.
    """
    text = str(error)
    if "CUDA out of memory" in text or type(error).__name__ == "OutOfMemoryError":
        return "oom"
    if _LOSS_SCALE in text:
        return "not-finite"
    if isinstance(error, MemoryError) or any(sign in text for sign in _HOST_MEMORY):
        return "host-oom"
    own = type(error).__module__.startswith("deepspeed")
    if phase == "config" and not isinstance(error, ImportError):
        return "rejected"
    return "rejected" if phase in _EARLY and ((own and phase == "init") or _refused(error, phase)) else "crash"


def _refused(error: BaseException, phase: str) -> bool:
    """Whether a library's configuring code raised an error, itself or through pydantic or Python's own modules."""
    where = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module, path = str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename
        pythons_own = path.startswith(_NOBODYS) and "-packages/" not in path
        if not pythons_own and module.partition(".")[0] != "pydantic":
            where = f"{module}:{frame.f_code.co_name}"
    if isinstance(error, ImportError):  # of a package that the attention needs
        return re.match(_ATTENTION, where) is not None
    if not isinstance(error, _REFUSALS):
        return False
    return _CONFIGURING.match(where) is not None or (phase == "init" and _IN_INIT.match(where) is not None)


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
