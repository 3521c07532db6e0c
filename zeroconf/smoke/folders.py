"""What a smoke test writes: the run's temporary folder, and its log, of which the last ones are kept."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from zeroconf.errors import SmokeTestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEPT_LOGS = 20
_LIVE_SECONDS = 24 * 3600
LOG_TAIL_BYTES = 200_000
LONGEST_LOG_BYTES = 20_000_000
_LOG_START_BYTES = 5_000_000
_LOG_END_BYTES = 5_000_000
_CUT_SECONDS = 0.02
_CUTTING = threading.Lock()  # whoever reads a log meanwhile would not see its end
_PREFIX = "zeroconf-smoke-"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextlib.contextmanager
def told_when_full(cache: Path) -> Iterator[None]:
    """Within, a disk that is full is said to be so; which one the system does not say.

    Raises:
        SmokeTestError: one is.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        where = f"on the disk of {tempfile.gettempdir()} or of {cache}"
        msg = f"no space is left {where}; make room, or set TMPDIR and ZEROCONF_CACHE to other disks"
        raise SmokeTestError(msg) from error


@contextlib.contextmanager
def scratch_folder(parent: Path | None) -> Iterator[Path]:
    """A new folder, in ``parent`` or among this machine's temporary ones; gone afterwards.

    Raises:
        SmokeTestError: there is nowhere to make it.
    """
    folder = _temporary() if parent is None else _make_in(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def open_log(folder: Path) -> Iterator[IO[str]]:
    """A new log in a folder, from which the oldest go but those of runs that go on; kept short until the end.

    Raises:
        SmokeTestError: the folder cannot be made, or written.
    """
    path = folder / f"smoke-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    with _usable(folder):
        for old in sorted(folder.glob("smoke-*.log"))[: -KEPT_LOGS + 1]:
            if not _is_written(old):
                with contextlib.suppress(OSError):  # it is another user's, or gone
                    old.unlink()
        log = path.open("a", encoding="utf-8")
    with log:
        # the ranks write by the same open file, so that it is locked until the last has ended
        with contextlib.suppress(OSError):
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with _kept_short(path):
            yield log


@contextlib.contextmanager
def _kept_short(log: Path) -> Iterator[None]:
    """Cuts a log all the while, whatever this process waits for: a rank can write gigabytes a second."""
    try:
        with repeated(lambda: cut(log), _CUT_SECONDS):
            yield
    finally:
        cut(log)


@contextlib.contextmanager
def repeated(action: Callable[[], None], seconds: float) -> Iterator[None]:
    """Meanwhile a thread does something every so many seconds; at the end it has ended."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(seconds):
            action()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _is_written(log: Path) -> bool:
    """Whether its run goes on. Where the file system has no locks, it may while something was written lately."""
    try:
        with log.open("a", encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:  # another run was faster
        return False
    except OSError:
        return time.time() - _modified(log) < _LIVE_SECONDS
    return False


def cut(log: Path) -> None:
    """Leaves out the middle of a log that has grown too long; it may be written meanwhile, by appending."""
    with _CUTTING, contextlib.suppress(OSError), log.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if size <= LONGEST_LOG_BYTES:
            return
        file.seek(size - _LOG_END_BYTES)
        end = file.read(_LOG_END_BYTES)
        file.truncate(_LOG_START_BYTES)
        with log.open("ab", buffering=0) as appended:
            appended.write(b"\n[zeroconf: output was left out here; the start and end of a long log are kept]\n" + end)


def _temporary() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix=_PREFIX))
    except FileNotFoundError as error:  # none of those that it tried can be written, or all are full
        msg = "no folder for temporary files can be written; set TMPDIR to one that can, on a disk with room"
        raise SmokeTestError(msg) from error


def _make_in(parent: Path) -> Path:
    with _usable(parent):
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))


@contextlib.contextmanager
def _usable(folder: Path) -> Iterator[None]:
    """Makes a folder of the cache; within, whatever refuses to write there is said to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise
        msg = f"the cache folder {folder.parent} cannot be used ({error.strerror}); set ZEROCONF_CACHE to another"
        raise SmokeTestError(msg) from error


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another run was faster
        return 0.0


def tail(path: Path) -> str:
    """The end of a log as it is now; it may be written meanwhile, faster than it can be read."""
    with _CUTTING, path.open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
        return log.read(LOG_TAIL_BYTES).decode("utf-8", "replace")
