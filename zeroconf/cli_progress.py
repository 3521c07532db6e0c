"""What a command says while it works: one line that moves on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Self

import click

if TYPE_CHECKING:
    from types import TracebackType

_TICK_SECONDS = 1.0
_WIDTH = 24


def bar(share: float, text: str) -> str:
    """``[######      ] text``."""
    return f"[{'#' * round(share * _WIDTH):<{_WIDTH}}] {text}"


class Progress:
    """Takes lines while a command runs. On a terminal the newest stands alone, with the seconds since the start.

    Of ``step 2 of 3`` a bar shows how far that is. Nothing of it is left at the end.
    """

    def __init__(self) -> None:
        """Starts the clock."""
        self._started = time.monotonic()
        self._line = ""
        self._moves = sys.stderr.isatty()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Shows what follows."""
        return self

    def __call__(self, line: str) -> None:
        """Shows a line."""
        if not self._moves:
            click.echo(line, err=True)
            return
        self._line = line
        self._draw()
        if self._thread is None:
            self._thread = threading.Thread(target=self._tick, daemon=True)
            self._thread.start()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Leaves no trace of it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            click.echo("\r\x1b[K", nl=False, err=True)

    def _tick(self) -> None:
        while not self._stop.wait(_TICK_SECONDS):
            self._draw()

    def _draw(self) -> None:
        seconds = time.monotonic() - self._started
        text = f"{self._with_bar()} ({seconds:.0f} s)"[: shutil.get_terminal_size().columns - 1]
        with self._lock:
            click.echo(f"\r{text}\x1b[K", nl=False, err=True)

    def _with_bar(self) -> str:
        """The line behind a bar, where it says how far it is."""
        words = self._line.split()
        with contextlib.suppress(ValueError, IndexError, ZeroDivisionError):
            if words[0] == "step" and words[2] == "of":
                done = int(words[1]) if "done" in self._line else int(words[1]) - 1
                return bar(min(1.0, done / int(words[3])), self._line)
        return self._line
