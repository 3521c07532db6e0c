"""What moves on a terminal, and what is a line elsewhere; a real pseudo-terminal, since both look at the stream."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from terminal import on_a_terminal

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


@pytest.mark.skipif(sys.platform != "linux", reason="reads a closed pseudo-terminal to its end")
def test_on_a_terminal_one_line_moves_and_goes():
    text = on_a_terminal([sys.executable, "-c", TEXT.format(seconds=1.2)])
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


@pytest.mark.skipif(sys.platform != "linux", reason="reads a closed pseudo-terminal to its end")
def test_without_colours_it_still_moves_and_on_a_dumb_terminal_each_is_a_line():
    command = [sys.executable, "-c", TEXT.format(seconds=0)]
    assert on_a_terminal(command, env=os.environ | {"NO_COLOR": "1"}).endswith("\r\x1b[Kthe result\r\n")
    dumb = on_a_terminal(command, env=os.environ | {"TERM": "dumb"})
    assert dumb == "importing\r\nstep 2 of 4\r\nstep 3 of 4 done, loss 0.5\r\nthe result\r\n"
