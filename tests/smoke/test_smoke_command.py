from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zeroconf.guarded import free_port, guard_command
from zeroconf.smoke.command import WORKER, cache_directory, launch_command, launch_environment


@pytest.mark.parametrize(
    ("launcher", "module", "count"),
    [
        ("torchrun", "torch.distributed.run", "--nproc-per-node=2"),
        ("deepspeed", "deepspeed.launcher.runner", "--num_gpus=2"),
        ("accelerate", "accelerate.commands.launch", "--num_processes=2"),
    ],
)
def test_launchers_run_as_modules_of_the_training_python(tmp_path, launcher, module, count):
    command = launch_command(launcher, "/env/bin/python", num_processes=2, port=4711, scratch=tmp_path)
    assert command[:3] == ["/env/bin/python", "-m", module]
    assert count in command
    assert any(part.endswith("=4711") for part in command)
    assert command[-3:] == [str(WORKER / "rank.py"), "--job", str(tmp_path / "job.json")]


def test_the_deepspeed_launcher_keeps_the_users_choice_of_gpus(tmp_path):
    command = launch_command("deepspeed", "python", num_processes=2, port=1, scratch=tmp_path, visible_devices="5,6,7")
    assert "--include=localhost:5,6" in command


def environment(base: dict[str, str], device: str = "cpu") -> dict[str, str]:
    return launch_environment(
        base,
        python="/env/bin/python",
        device=device,
        num_processes=2,
        scratch=Path("/scratch"),
        kept={"TORCH_EXTENSIONS_DIR": "/ops"},
    )


def test_an_outer_launchers_variables_do_not_leak_in():
    outer = {"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "far", "LOCAL_RANK": "1", "ACCELERATE_USE_FSDP": "true"}
    assert not outer.keys() & environment(outer).keys()


def test_the_ranks_find_ninja_and_keep_the_users_network():
    made = environment({"PATH": "/usr/bin", "NCCL_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "7"})
    assert made["PATH"] == "/env/bin:/usr/bin"
    assert made["NCCL_SOCKET_IFNAME"] == "eth0"
    assert made["OMP_NUM_THREADS"] == "7"
    assert made["TORCH_EXTENSIONS_DIR"] == "/ops"
    assert made["DS_ACCELERATOR"] == "cpu"


def test_a_gpu_run_lets_deepspeed_find_the_accelerator():
    assert "DS_ACCELERATOR" not in environment({}, device="cuda")


def test_the_cache_can_be_moved(monkeypatch, tmp_path):
    monkeypatch.setenv("ZEROCONF_CACHE", str(tmp_path / "here"))
    assert cache_directory() == tmp_path / "here"
    monkeypatch.delenv("ZEROCONF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "zeroconf"


def test_ports_are_free_ones():
    assert free_port() > 1024


# one port in a network of its own, and it is taken
NO_PORT = """
import pathlib, socket, sys
from zeroconf.errors import SmokeTestError
from zeroconf.guarded import free_port
pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("40000 40000")
with socket.socket() as taken:
    taken.bind(("127.0.0.1", free_port()))
    try:
        free_port()
    except SmokeTestError as error:
        print(error)
"""


def test_no_free_port_is_said():
    can = shutil.which("unshare") and shutil.which("ip")
    if not can or subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:
        pytest.skip("a network of its own needs root")
    shell = ["sh", "-c", 'ip link set lo up; exec "$0" -c "$1"', sys.executable, NO_PORT]
    ran = subprocess.run(["unshare", "--net", *shell], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("no TCP port is free")


def test_the_guard_knows_its_parent(tmp_path):
    command = guard_command("python", tmp_path, ["true"])
    assert command[3:] == [str(os.getpid()), str(tmp_path), "3.0", "true"]
