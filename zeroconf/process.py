"""The process around a command: signals that unwind it, and standard streams that cannot make it fail."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import signal
import sys
from typing import IO, TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

# Windows has no SIGHUP
_STOPPING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


# how a stream writes what its encoding has no bytes for
ESCAPED = "zeroconf-escaped"


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Four hexadecimal digits, as in JSON, so that it stays JSON; twice that beyond 65,535."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)), error.end


codecs.register_error(ESCAPED, _escape)


@contextlib.contextmanager
def unwinding_signals() -> Iterator[None]:
    """Meanwhile SIGTERM and SIGHUP raise SystemExit(128 + signal), SIGINT KeyboardInterrupt: files are cleaned up.

    A signal that the parent had ignored, as ``nohup`` does, stays ignored.
    """
    handlers = {signal.SIGINT: signal.default_int_handler} | dict.fromkeys(_STOPPING, _stop)
    before = {number: signal.getsignal(number) for number in handlers}
    heeded = [number for number in handlers if before[number] not in {signal.SIG_IGN, None}]
    try:
        for number in heeded:
            signal.signal(number, handlers[number])
        yield
    except RuntimeError as error:
        # one that comes while a class is made: before 3.12 Python wraps what __set_name__ raises
        if isinstance(error.__cause__, (KeyboardInterrupt, SystemExit)):
            raise error.__cause__ from None
        raise
    finally:
        for number in heeded:
            signal.signal(number, before[number])


def _stop(number: int, _frame: object) -> NoReturn:
    for other in _STOPPING:
        # not SIG_IGN: Python complains about a signal that arrived before its handler became that
        signal.signal(other, _carry_on)
    raise SystemExit(128 + number)


def _carry_on(_number: int, _frame: object) -> None:
    """A second signal does not cut the cleaning up short."""


@contextlib.contextmanager
def usable_streams() -> Iterator[None]:
    """Meanwhile closed standard streams swallow what is printed, and so does a full or broken stderr.

    What stdout's encoding has no bytes for becomes an escape (ESCAPED), as it does on stderr.
    """
    out, err = sys.stdout, sys.stderr
    is_real = err is sys.__stderr__
    with contextlib.ExitStack() as stack:
        if out is None:
            sys.stdout = stack.enter_context(_nowhere())
        elif isinstance(out, io.TextIOWrapper):
            out.reconfigure(errors=ESCAPED)
        if err is None:
            sys.stderr = stack.enter_context(_nowhere())
        elif is_real and not err.isatty():
            raw = io.BufferedWriter(_Unfailing(err.fileno(), "w", closefd=False))
            text = io.TextIOWrapper(raw, encoding=err.encoding, errors=err.errors, line_buffering=True)
            sys.stderr = stack.enter_context(text)
        try:
            yield
        finally:
            try:
                sys.stdout.flush()
            except OSError:  # reported already: the interpreter must not stumble over it again at its end
                discard(sys.stdout)
            sys.stdout, sys.stderr = out, err


def _nowhere() -> IO[str]:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123  (pathlib takes 4 ms of every --help)


def discard(stream: IO[str]) -> None:
    """Sends what the stream still holds, and all that follows, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class _Unfailing(io.FileIO):
    """A descriptor on which a full disk or a reader that left is no failure."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)
