"""One rank that runs the user's own program, unedited, for so many optimizer steps, measured from outside.

DeepSpeed's engine is watched from when the program imports it (watch.py); the program ends with the last of the steps,
or by itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:  # mypy's names; the ranks run by path, where the siblings stand alone
    from zeroconf.smoke.worker.records import Record
    from zeroconf.smoke.worker.watch import Watch
else:
    from records import Record
    from watch import Watch

_exit = os._exit
PHASE = "the script"  # before, and outside of, DeepSpeed
# as Python's warnings module writes one, at once, with a line of source below
_WARNING = re.compile(r"[^\n]+:\d+: \w*Warning: ")


class _LastLine:
    """A stream that remembers its last line that is neither blank nor a warning: what a program said before it left."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._line = ""
        self.text = ""

    def write(self, text: str) -> int:
        if not _WARNING.match(text):
            *whole, self._line = (self._line + text)[-2000:].split("\n")
            self.text = next((line for line in reversed(whole) if line.strip()), self.text)
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def leave(code: int) -> NoReturn:
    """Ends the rank at once: a failed one must not wait for its peers in destructors, nor a done one save models."""
    sys.stdout.flush()
    sys.stderr.flush()
    _exit(code)


def run(script: str, arguments: list[str], folder: str) -> None:
    """The program as ``python script arguments`` runs it in ``folder``, without a trace of this one's modules."""
    here = str(Path(__file__).parent)
    for name, module in list(sys.modules.items()):
        # a program may have modules of the same names
        if name != "__main__" and str(getattr(module, "__file__", "")).startswith(here):
            del sys.modules[name]
    if not Path.cwd().samefile(folder):  # by ssh it started at home
        os.chdir(folder)
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


def ended(record: Record, steps: int) -> int:
    """What a program's own end means: enough where it stepped, else nothing was tried. The exit code."""
    done = len(record.values.get("step_seconds", ()))
    skipped = record.values.get("skipped", {"searching": 0, "not_finite": 0, "first": None})
    if done or skipped["not_finite"] or skipped["first"]:
        what = "optimizer step" if steps == 1 else "optimizer steps"
        record.values["ended"] = f"ended by itself, after {done} of {steps} {what}"
        record.values["substitutions"].append(f"the script {record.values['ended']}")
        record.end(steps)
        return 0
    what = "it never called deepspeed.initialize"
    if skipped["searching"]:
        what = f"fp16's search for a loss scale skipped all {skipped['searching']}"
    elif "zero_stage" in record.values["environment"]:
        what = "its engine's step() never updated the weights"
    record.give_up("no-steps", f"the script ended by itself without an optimizer step of DeepSpeed: {what}")
    return 1


def note_exits(record: Record, said: _LastLine, steps: int) -> None:
    """A program that leaves by ``os._exit``, past Python's own end, is noted too; a process that it forks is not."""
    mine = os.getpid()

    def noted(status: int) -> NoReturn:
        with contextlib.suppress(OSError):  # the records' disk may be full
            if os.getpid() == mine and status:
                left_with(record, status, said)
            elif os.getpid() == mine:
                ended(record, steps)
        _exit(status)

    os._exit = noted


def left_with(record: Record, code: Any, said: _LastLine) -> None:
    """A program's own exit code that is no success; or a text, which Python prints and makes 1 of."""
    code, text = (code, said.text) if isinstance(code, int) else (1, str(code))
    record.give_up("crash", f"it left with exit code {code}" + (f": {text}" if text.strip() else ""))


def main(job: dict[str, Any], launchers_arguments: list[str]) -> NoReturn:
    """Runs the job's program; the record says how it went. The launcher's own arguments (--local_rank) stand first."""
    record = Record(job["results"], int(os.environ.get("RANK", "0")))
    record.values |= {"phase": PHASE, "device": job["device"]}
    record.save()
    said = sys.stderr = _LastLine(sys.stderr)
    note_exits(record, said, job["steps"])
    Watch(job, record, leave).install()
    try:
        run(job["script"], [*launchers_arguments, *job["arguments"]], job["folder"])
    except SystemExit as stop:
        if stop.code not in (None, 0):
            if not isinstance(stop.code, int):
                print(stop.code, file=sys.stderr)  # as Python does at its end, which does not come
            left_with(record, stop.code, said)
            leave(1)
    except BaseException as error:  # noqa: BLE001  (whatever it is, it is the result)
        print(f"[rank {record.values['rank']}] failed in {record.values['phase']}:", file=sys.stderr)
        traceback.print_exc()
        record.fail(error)
        leave(1)
    leave(ended(record, job["steps"]))
