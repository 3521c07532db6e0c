"""What is compiled once and kept: DeepSpeed's JIT operators and the counter of CPU bytes.

Directories are keyed by everything that the binaries depend on. Standard library only; nothing here
imports torch, so that a prepared environment is checked in milliseconds.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from importlib import metadata, util
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTER_SOURCE = Path(__file__).with_name("counter.cpp")
COMPILE_SECONDS = 300
_LONGEST_ERROR_BYTES = 1_000_000
WAIT_SECONDS = 1200.0  # DeepSpeed's largest operator, on a slow machine
_POLL_SECONDS = 0.2


class BuildError(Exception):
    """A compiler is missing or refused; the message is one sentence."""


def telling_line(output: str) -> str:
    """Of a failed build's whole output the line that says why: its reason before its consequences."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or [""]
    for sign in ("No space left on device", "Disk quota exceeded", "cannot find -l", "error:", "not found"):
        if found := next((line for line in lines if sign in line), ""):
            return found[:300]
    return lines[0][:300]


def version(distribution: str) -> str:
    """The installed release of a distribution, "" when it is not there; read from metadata, not imported."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def processor() -> str:
    """A short key of the processor: DeepSpeed compiles with -march=native."""
    text = platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        text += "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def build_directory(cache: Path) -> Path:
    """The directory of everything compiled for this Python, torch, DeepSpeed and processor."""
    python = f"{sys.implementation.cache_tag}-{hashlib.sha256(sys.prefix.encode()).hexdigest()[:8]}"
    return cache / "build" / f"{python}-torch{version('torch')}-deepspeed{version('deepspeed')}-{processor()}"


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Says that something begins that takes as long as it takes, and its end; between both no time limit counts.

    ``what`` begins with "compiling" or "waiting" (smoke/prepared.py: follow).
    """
    print(what, flush=True)
    try:
        yield
    finally:
        print(f"done {what}", flush=True)


@contextlib.contextmanager
def locked(path: Path, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Holds an exclusive lock that the kernel drops with its owner, so that it cannot go stale.

    Raises:
        BuildError: another process has held it all the time.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        if not _flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            with told("waiting for another run, which compiles the same"):
                _wait_for(handle, path, wait_seconds)
        yield


def _wait_for(handle: IO[str], path: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not _flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
        if time.monotonic() > deadline:
            msg = f"another run has compiled for more than {seconds:g} s; end the process that holds {path}"
            raise BuildError(msg)
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Holds the lock unless another process, on this host or another, has it; whether it does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        yield _flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _flock(handle: IO[str], how: int) -> bool:
    """Takes a lock; whether nobody else has it. Where the file system has no locks, as many a Lustre, there is none."""
    try:
        fcntl.flock(handle, how)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}:
            raise
    return True


def kept_by_torch(directory: Path) -> dict[str, str]:
    """The variables by which torch.compile and Triton keep here what they compile, unless the user has set them.

    Torch's own place is among the temporary files, which go with the run (torch/_inductor/runtime/cache_dir_utils.py).
    It locks its files, so that a file system without locks gets nothing of it.
    """
    if "TORCHINDUCTOR_CACHE_DIR" in os.environ:  # Triton's is within
        return {}
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "locks.flock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return {}
    folders = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
    return {name: str(directory / folder) for name, folder in folders.items() if name not in os.environ}


def _open_files() -> set[str]:
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            found.add(str(link.readlink()))
    return found


def _identity(path: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_mtime_ns
    return None


def remove_stale_locks(extensions: Path) -> list[Path]:
    """Removes ``<op>/lock`` files that no living process holds open; the removed ones.

    torch's JIT holds the file open while it builds (torch.utils.file_baton); a killed build leaves it, and
    every later process waits for it forever. Where /proc is missing, only locks older than an hour go. A lock that is
    another one a moment later is no stale one: its owners come and go while /proc is read.
    """
    locks = {path.resolve(): _identity(path) for path in extensions.glob("*/lock")}
    if not locks:
        return []
    if Path("/proc/self/fd").exists():
        opened = _open_files()
        stale = [path for path in locks if str(path) not in opened]
        if stale:
            time.sleep(_POLL_SECONDS)
            stale = [path for path in stale if locks[path] is not None and _identity(path) == locks[path]]
    else:
        newest = max((path.stat().st_mtime for path in extensions.iterdir()), default=0.0)
        stale = [path for path in locks if newest - path.stat().st_mtime > 3600]
    for path in stale:
        path.unlink(missing_ok=True)
    return stale


def counter_path(directory: Path) -> Path:
    """Where the compiled counter is, built or not. A change of its source is a new file."""
    source = hashlib.sha256(COUNTER_SOURCE.read_bytes()).hexdigest()[:8]
    return directory / f"counter-{source}.so"


def build_counter(directory: Path) -> Path:
    """Compiles the counter unless it is there; its path.

    Raises:
        BuildError: no compiler, or it refuses torch's headers.
    """
    target = counter_path(directory)
    with locked(directory / "counter.flock"):
        if not target.exists():
            with told("compiling the counter of CPU memory once (about half a minute)"):
                _compile_counter(target)
    return target


def _compile_counter(target: Path) -> None:
    compiler = shutil.which(os.environ.get("CXX", "")) or shutil.which("g++") or shutil.which("c++")
    spec = util.find_spec("torch")
    if compiler is None or spec is None or spec.origin is None:
        msg = "no C++ compiler was found (g++, c++ or $CXX)"
        raise BuildError(msg)
    torch = Path(spec.origin).parent
    partial = target.with_suffix(f".{os.getpid()}.part")
    error = ""
    # torch 2.13 needs C++20, older releases C++17
    for standard in ("c++20", "c++17"):
        command = [compiler, f"-std={standard}", "-O2", "-shared", "-fPIC", f"-I{torch / 'include'}"]
        command += [str(COUNTER_SOURCE), "-o", str(partial), f"-L{torch / 'lib'}", "-lc10"]
        try:
            code, said = _run(command)
        except OSError as failure:
            raise BuildError(str(failure)) from failure
        if code == 0:
            partial.replace(target)
            return
        error = telling_line(said)
    partial.unlink(missing_ok=True)
    msg = f"{compiler} could not compile the memory counter: {error}"
    raise BuildError(msg)


def _run(command: list[str]) -> tuple[int, str]:
    """A compiler's exit code and the start of what it says; it ends if it says or takes too much.

    Raises:
        BuildError: it took longer than COMPILE_SECONDS.
    """
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        # with the processes that it started, which hold the pipe too
        clock = threading.Timer(COMPILE_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        clock.start()
        said = process.stderr.read(_LONGEST_ERROR_BYTES) if process.stderr else b""
        if len(said) == _LONGEST_ERROR_BYTES:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        in_time = clock.is_alive()
        clock.cancel()
    if not in_time:
        msg = f"{command[0]} did not end within {COMPILE_SECONDS} s"
        raise BuildError(msg)
    return process.returncode, said.decode("utf-8", "replace")
