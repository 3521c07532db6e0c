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
import subprocess
import sys
from importlib import metadata, util
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTER_SOURCE = Path(__file__).with_name("counter.cpp")
COMPILE_SECONDS = 300


class BuildError(Exception):
    """A compiler is missing or refused; the message is one sentence."""


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
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock that the kernel drops with its owner, so that it cannot go stale."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        _flock(handle, fcntl.LOCK_EX)
        yield


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


def _open_files() -> set[str]:
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            found.add(str(link.readlink()))
    return found


def remove_stale_locks(extensions: Path) -> list[Path]:
    """Removes ``<op>/lock`` files that no living process holds open; the removed ones.

    torch's JIT holds the file open while it builds (torch.utils.file_baton); a killed build leaves it, and
    every later process waits for it forever. Where /proc is missing, only locks older than an hour go.
    """
    locks = [path.resolve() for path in extensions.glob("*/lock")]
    if not locks:
        return []
    if Path("/proc/self/fd").exists():
        opened = _open_files()
        stale = [path for path in locks if str(path) not in opened]
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
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as failure:
            raise BuildError(str(failure)) from failure
        if done.returncode == 0:
            partial.replace(target)
            return
        error = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[-200:])
    partial.unlink(missing_ok=True)
    msg = f"{compiler} could not compile the memory counter: {error}"
    raise BuildError(msg)
