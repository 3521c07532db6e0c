"""What a command says while it works: one line that moves on a terminal, lines elsewhere.

Its imports stay inside: what a linter's start pays for all commands is little (benchmarks/lint_speed.py).
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

import click

from zeroconf.cli_output import loudness, moves

if TYPE_CHECKING:
    import threading
    from types import TracebackType

_TICK_SECONDS = 1.0
_WIDTH = 24


def bar(share: float, text: str) -> str:
    """``[######      ] text``."""
    return f"[{'#' * round(share * _WIDTH):<{_WIDTH}}] {text}"


class MovingLine:
    """One line on a terminal that is written over, from so many seconds on; nothing of it is left at the end.

    Elsewhere, and with --quiet, there is none.
    """

    def __init__(self, after_seconds: float = 0.0) -> None:
        """Starts the clock."""
        self.started = time.monotonic()
        self.moves = moves() and not loudness().quiet
        self._after_seconds = after_seconds
        self._shown = False

    def show(self, text: str) -> None:
        """Writes over what was shown."""
        if self.moves and time.monotonic() - self.started >= self._after_seconds:
            import shutil

            self._write(f"\r{text[: shutil.get_terminal_size().columns - 1]}\x1b[K")
            self._shown = True

    def clear(self) -> None:
        """Leaves no trace of it."""
        if self._shown:
            self._write("\r\x1b[K")

    @staticmethod
    def _write(text: str) -> None:
        # not click.echo, which takes moves for colours, and those out where they are not wanted
        sys.stderr.write(text)
        sys.stderr.flush()


class Progress:
    """Takes lines while a command runs. On a terminal the newest stands alone, with the seconds since the start.

    Of ``step 2 of 3`` a bar shows how far that is. With --verbose all stay, with --quiet there are none.
    """

    def __init__(self) -> None:
        """Starts the clock."""
        import threading

        asked = loudness()
        self._moving = MovingLine()
        self._moves = self._moving.moves and not asked.verbose
        self._silent = asked.quiet
        self._line = ""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Shows what follows."""
        return self

    def __call__(self, line: str) -> None:
        """Shows a line."""
        if self._silent:
            return
        if not self._moves:
            click.echo(line, err=True)
            return
        self._line = line
        self._draw()
        if self._thread is None:
            import threading

            self._thread = threading.Thread(target=self._tick, daemon=True)
            self._thread.start()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Leaves no trace of it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._moving.clear()

    def _tick(self) -> None:
        while not self._stop.wait(_TICK_SECONDS):
            self._draw()

    def _draw(self) -> None:
        seconds = time.monotonic() - self._moving.started
        with self._lock:
            self._moving.show(f"{self._with_bar()} ({seconds:.0f} s)")

    def _with_bar(self) -> str:
        """The line behind a bar, where it says how far it is."""
        import contextlib

        words = self._line.split()
        with contextlib.suppress(ValueError, IndexError, ZeroDivisionError):
            if words[0] == "step" and words[2] == "of":
                done = int(words[1]) if "done" in self._line else int(words[1]) - 1
                return bar(min(1.0, done / int(words[3])), self._line)
        return self._line
