"""Where the console script and ``python -m zeroconf`` start: Ctrl-C is quiet even while the imports run."""

from __future__ import annotations

import signal


def main() -> None:
    """Runs the command line; an interrupt before and after it ends the process without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from zeroconf.cli import main as command  # noqa: PLC0415  (the slow imports that are protected here)

    command()
