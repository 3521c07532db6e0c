"""Where the console script and ``python -m zeroconf`` start: Ctrl-C is quiet even while the imports run."""

from __future__ import annotations

import gc
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn
else:
    # the C module: an interrupt during the imports of signal and typing (enum, re) would show a traceback
    import _signal as signal


def main() -> None:
    """Runs the command line; an interrupt before and after it ends the process without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # a command ends before its garbage matters; looking for it takes 7 % of the time of linting a file
    gc.disable()
    from zeroconf.cli import main as command  # noqa: PLC0415  (the slow imports that are protected here)

    command()


def script() -> NoReturn:
    """The console script: as ``main``, without taking the interpreter down, which takes a seventh of that time.

    Nothing is lost: the command line has flushed the streams, and no module registers work for the end.
    """
    code: object = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    os._exit(code if isinstance(code, int) else code is not None)
