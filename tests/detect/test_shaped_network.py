"""The measured bandwidth is that of the link: two ranks in network name spaces, joined by a link of a known rate."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys

import pytest

from zeroconf.guarded import free_port

CODE = """
import json, sys
from zeroconf.detect.machine import this_machine
from zeroconf.detect.measure import measure
found = measure(this_machine(), python=sys.executable, seconds=6.0)
print(json.dumps([found.bytes_per_second, found.num_nodes, found.backend]))
"""


def shell(*words):
    subprocess.run([str(word) for word in words], check=True, capture_output=True, timeout=20)


@contextlib.contextmanager
def joined_by(rate):
    """Two name spaces and their addresses on a link of a rate; skips where this process may not make them."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.skip("iproute2 is not installed")
    spaces = [f"zeroconf-{os.getpid()}-{side}" for side in "ab"]
    ends = [f"zc{os.getpid() % 10**6}{side}" for side in "ab"]
    try:
        for space in spaces:
            shell("ip", "netns", "add", space)
        shell("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for number, (space, end) in enumerate(zip(spaces, ends, strict=True), 1):
            shell("ip", "link", "set", end, "netns", space)
            shell("ip", "-n", space, "addr", "add", f"10.77.0.{number}/24", "dev", end)
            shell("ip", "-n", space, "link", "set", end, "up")
            shell("ip", "-n", space, "link", "set", "lo", "up")
            limit = ("tbf", "rate", rate, "burst", "128kb", "latency", "50ms")
            shell("ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", end, "root", *limit)
    except (OSError, subprocess.SubprocessError):
        remove(spaces)
        subprocess.run(["ip", "link", "del", ends[0]], check=False, capture_output=True)
        pytest.skip("no network name space with a shaped link can be made here")
    try:
        yield spaces
    finally:
        remove(spaces)


def remove(spaces):
    for space in spaces:
        subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


@pytest.mark.launch
@pytest.mark.parametrize("megabits", [100, 400])
def test_the_measured_bandwidth_is_the_links(megabits):
    with joined_by(f"{megabits}mbit") as spaces:
        port = str(free_port())
        ranks = []
        for rank, space in enumerate(spaces):
            job = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "GROUP_RANK": str(rank)}
            environment = dict(os.environ) | job | {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": port}
            command = ["ip", "netns", "exec", space, sys.executable, "-c", CODE]
            ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        told = [json.loads(rank.communicate(timeout=180)[0]) for rank in ranks]
    bytes_per_second, num_nodes, backend = told[0]
    assert (num_nodes, backend) == (2, "gloo")
    # less the headers; the burst that the limit lets through at once adds a little
    assert 0.75 <= bytes_per_second * 8 / 1e6 / megabits <= 1.1
    assert told[1] == told[0]
