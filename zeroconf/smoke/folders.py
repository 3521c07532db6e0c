"""What a smoke test writes: the run's temporary folder, and its log, of which the last ones are kept."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from zeroconf.errors import SmokeTestError

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT_LOGS = 20
_LIVE_SECONDS = 24 * 3600
LOG_TAIL_BYTES = 200_000


@contextlib.contextmanager
def scratch_folder(parent: Path | None) -> Iterator[Path]:
    """A new folder, in ``parent`` or among this machine's temporary ones; gone afterwards.

    Raises:
        SmokeTestError: the parent cannot be made.
    """
    if parent is not None:
        _make(parent)
    folder = Path(tempfile.mkdtemp(prefix="zeroconf-smoke-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def open_log(folder: Path) -> Iterator[IO[str]]:
    """A new log in a folder, from which the oldest go.

    Raises:
        SmokeTestError: the folder cannot be made.
    """
    _make(folder)
    for old in sorted(folder.glob("smoke-*.log"))[: -KEPT_LOGS + 1]:
        # a run that still goes on writes to its log at least once in its time limit
        if time.time() - _modified(old) > _LIVE_SECONDS:
            old.unlink(missing_ok=True)
    with (folder / f"smoke-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log").open("a", encoding="utf-8") as log:
        yield log


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"the cache folder {folder.parent} cannot be used ({error.strerror}); set ZEROCONF_CACHE to another"
        raise SmokeTestError(msg) from error


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another run was faster
        return 0.0


def tail(path: Path) -> str:
    """The end of a log."""
    with path.open("rb") as log:
        log.seek(0, os.SEEK_END)
        log.seek(max(0, log.tell() - LOG_TAIL_BYTES))
        return log.read().decode("utf-8", "replace")
