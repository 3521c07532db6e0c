"""What is no regular file: never waited for, but a shell's pipe is read."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from lint_texts import BAD

ENTRY = f"{sys.executable} -m zeroconf lint"


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))  # a long path is refused


def make_device_link(path):
    path.symlink_to("/dev/zero")


KINDS = [(make_pipe, "a named pipe"), (make_socket, "a socket"), (make_device_link, "a device")]


@pytest.mark.parametrize(("make", "told"), KINDS)
def test_a_named_one_is_refused_and_the_others_are_read(write, zeroconf, make, told):
    folder = write(**{"bad.json": BAD})
    make(folder / "x.json")
    code, out, err = zeroconf("lint", "x.json", "bad.json")
    assert (code, err) == (
        2,
        f"error: x.json: {told}, not a regular file; give its content to standard input (-)\n",
    )
    assert "Found 1 error in 1 file." in out


@pytest.mark.parametrize(("make", "_told"), KINDS)
def test_in_a_folder_it_is_passed_over(write, zeroconf, make, _told):
    folder = write(**{"c/bad.json": BAD})
    make(folder / "c/x.json")
    code, out, err = zeroconf("lint", "c")
    assert (code, err) == (1, "")
    assert "Found 1 error in 1 file." in out


@pytest.mark.parametrize(
    "command",
    ["{} <(cat bad.json)", "cat bad.json | {} /dev/stdin", "{} /dev/stdin < bad.json", "{} /dev/fd/0 < bad.json"],
)
def test_what_the_shell_opens_is_read(write, command):
    folder = write(**{"bad.json": BAD})
    shell = ["/bin/bash", "-c", command.format(ENTRY)]
    done = subprocess.run(shell, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "ZC240" in done.stdout
