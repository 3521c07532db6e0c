"""What the training environment answered before any rank starts (worker/prepare.py), on one host or on several."""

from __future__ import annotations

import json
import os
import re
import selectors
import time
from typing import TYPE_CHECKING, Any

from zeroconf.errors import SmokeTestError
from zeroconf.inputs.text import shown
from zeroconf.smoke.folders import tail
from zeroconf.smoke.outcome import explain, last_error, one_line

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

# what worker/host.py and worker/over_ssh.py say
_NOT_SHARED = re.compile(r"SharedFolderError: (\S+)")
_NOT_REACHED = re.compile(r"SSHError: ((\S+) .*)")


# what worker/caches.py says while it takes its time (told)
_BEGINS = (b"compiling ", b"waiting ")
_ENDS = b"done "
_IN_WORKER = '/worker/prepare.py", line '  # of a Python that is too old to compile it
_LINE_LENGTH = 300
_READ_BYTES = 65536
_POLL_SECONDS = 0.2


def follow(process: subprocess.Popen[str], progress: Callable[[str], None], limit_seconds: float, log: Path) -> bool:
    """Shows what a preparation compiles until it ends; False when it takes longer, what it compiles apart.

    ``log`` gets whatever else it prints: the words of a program that is no Python, or of what it imports.
    """
    if process.stdout is None:
        return True
    pipe, begun, busy = process.stdout.fileno(), b"", 0
    deadline = time.monotonic() + limit_seconds
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while busy or time.monotonic() < deadline:
            if not selector.select(_POLL_SECONDS):
                continue
            if not (read := os.read(pipe, _READ_BYTES)):
                process.wait()
                _append(log, [begun] if begun else [])
                return True
            *lines, begun = (begun[-_READ_BYTES:] + read).split(b"\n")
            for line in lines:
                if busy and line.startswith(_ENDS):
                    busy, deadline = busy - 1, time.monotonic() + limit_seconds
                elif line.startswith(_BEGINS):
                    busy += 1
                    progress(shown(line.decode("utf-8", "replace").rstrip(), _LINE_LENGTH))
            _append(log, [line for line in lines if not line.startswith((*_BEGINS, _ENDS))])
    return False


def _append(log: Path, lines: Sequence[bytes]) -> None:
    if lines:
        with log.open("ab") as file:
            file.write(b"\n".join((*lines, b"")))


def no_answer_in_time(folder: Path, python: str, hosts: Sequence[str], log: Path, seconds: float) -> SmokeTestError:
    """The error of hosts that have not answered yet; one empty name is this machine."""
    silent = [host for node, host in enumerate(hosts) if not answer_path(folder, node).exists()]
    where = f"{python} on {' and '.join(silent)}" if any(silent) else python
    msg = (
        f"{where} did not say within {seconds:g} s what is installed; `{python} -c 'import torch'` must end there, or "
    )
    msg += f"raise --timeout ({log})"
    return SmokeTestError(msg)


def answer_path(folder: Path, node: int) -> Path:
    """The file of a host's answer."""
    return folder / f"prepared-{node}.json"


def read_answers(folder: Path, python: str, hosts: Sequence[str], log: Path) -> list[dict[str, Any]]:
    """Each host's answer; ``hosts`` are their names, one empty name for this machine alone.

    Raises:
        SmokeTestError: a host has none.
    """
    answers = []
    for node, host in enumerate(hosts):
        path = answer_path(folder, node)
        if not path.exists():
            raise SmokeTestError(_no_answer(folder, python, host, log))
        answers.append(json.loads(path.read_text(encoding="utf-8")))
    return answers


def _no_answer(folder: Path, python: str, host: str, log: Path) -> str:
    said = tail(log)
    if not host:
        why = one_line(last_error(said)) or _last_line(said)
        if not answer_path(folder, 0).with_suffix(".begun").exists() and _IN_WORKER not in said:
            cure = "give --python the training environment's, like ~/train-env/bin/python"
            return f"{python} is no working Python interpreter: {why}; {cure} ({log})"
        told = explain("crash", why, f"{python} could not be prepared", log=said)
        return f"{told.explanation}; {told.cure} ({log})"
    # a host that fails ends the others before they have answered: the first without an answer need not be at fault
    if unshared := _NOT_SHARED.search(said):
        where, host = folder.parent.parent, shown(unshared[1])
        return f"{host} does not see {where}; set ZEROCONF_CACHE to a folder on a file system that all hosts share"
    if unreached := _NOT_REACHED.search(said):
        return f"{one_line(unreached[1])}; `ssh {shown(unreached[2])}` must work without a password or a question"
    why = one_line(last_error(said)) or f"{python}: {_last_line(said)}"
    return f"{host} could not be prepared for a smoke test: {why} ({log})"


def _last_line(said: str) -> str:
    """What was said last, where nothing looks like an error: a program that is no Python says it in its own words."""
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
    return shown(last, _LINE_LENGTH) or "it ended without a word"


def check(
    answers: Sequence[dict[str, Any]], hosts: Sequence[str], slots: Sequence[int], *, python: str, device: str
) -> None:
    """Whether each host can start its ranks: ``slots`` is their number on each.

    Raises:
        SmokeTestError: packages or GPUs are missing.
    """
    for answer, host, ranks in zip(answers, hosts, slots, strict=True):
        where = f"{python} on {host}" if host else python
        if answer["missing"]:
            names = " ".join(answer["missing"])
            msg = f"{where} has no {names.replace(' ', ', ')}; give the training environment's with --python, "
            msg += f"or install: {python} -m pip install {names}"
            raise SmokeTestError(msg)
        gpus = answer["num_devices"] if answer["device"] == "cuda" else 0
        if device == "cuda" and not gpus:
            msg = f"PyTorch of {where} sees no GPU; use --device cpu, or install a CUDA build of torch"
            raise SmokeTestError(msg)
        if gpus and ranks > gpus:
            cure = f"{host} has {gpus} GPUs; lower its slots" if host else f"this machine has {gpus} GPUs"
            msg = f"{ranks} processes were asked for, {cure}" + ("" if host else "; lower --num-gpus")
            raise SmokeTestError(msg)
    devices = {answer["device"]: host for answer, host in zip(answers, hosts, strict=True)}
    if len(devices) > 1:
        msg = (
            f"PyTorch sees GPUs on {devices['cuda']} and none on {devices['cpu']}; use --device cpu, or mend the latter"
        )
        raise SmokeTestError(msg)


def differences(answers: Sequence[Mapping[str, Any]], hosts: Sequence[str]) -> Iterable[str]:
    """What the hosts do not have in common, and ranks of one job should."""
    first = answers[0]
    for name in ("python", *first["versions"], "driver"):
        values = [{**answer, **answer["versions"]}[name] for answer in answers]
        other = next((node for node, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            yield f"{name} is {values[0] or 'missing'} on {hosts[0]} and {values[other] or 'missing'} on {hosts[other]}"
