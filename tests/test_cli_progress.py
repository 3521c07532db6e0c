"""What moves on a terminal, and what is a line elsewhere; a real pseudo-terminal, since both look at the stream."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

TEXT = """
import time
from zeroconf.cli_progress import Progress
with Progress() as progress:
    progress("importing")
    time.sleep({seconds})
    progress("step 2 of 4")
    progress("step 3 of 4 done, loss 0.5")
print("the result")
"""


def on_a_terminal(seconds):
    parent, child = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", TEXT.format(seconds=seconds)], stdout=child, stderr=child) as process:
        process.wait(30)
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


@pytest.mark.skipif(sys.platform != "linux", reason="reads a closed pseudo-terminal to its end")
def test_on_a_terminal_one_line_moves_and_goes():
    text = on_a_terminal(1.2)
    assert "\rimporting (0 s)\x1b[K" in text
    assert text.count("\rimporting (") > 1  # it moves while nothing is said
    assert "\r[######                  ] step 2 of 4 (" in text
    assert "\r[##################      ] step 3 of 4 done, loss 0.5 (" in text
    assert text.endswith("\r\x1b[Kthe result\r\n")
    assert text.count("\n") == 1


def test_elsewhere_each_is_a_line_and_stdout_is_clean():
    ran = subprocess.run([sys.executable, "-c", TEXT.format(seconds=0)], capture_output=True, text=True, check=True)
    assert ran.stdout == "the result\n"
    assert ran.stderr == "importing\nstep 2 of 4\nstep 3 of 4 done, loss 0.5\n"
