"""Runs a command on a pseudo-terminal, since colours and moving lines look at the stream."""

from __future__ import annotations

import os
import pty
import subprocess


def on_a_terminal(command, streams=("stdout", "stderr"), **options):
    """What the command writes to the terminal, which is the streams named; the others go nowhere."""
    parent, child = pty.openpty()
    where = {name: child if name in streams else subprocess.DEVNULL for name in ("stdout", "stderr")}
    with subprocess.Popen(command, **where, **options) as process:
        process.wait(60)
    os.close(child)
    text = ""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:  # Linux's end of a terminal whose other side is closed
            break
        if not part:
            break
        text += part.decode()
    os.close(parent)
    return text
