"""The measurement with real ranks: gloo, on this machine."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from machines import dgx, make_machine

from zeroconf.detect.measure import measure, plan_launch
from zeroconf.errors import InputError
from zeroconf.guarded import free_port

HOSTS = "a slots=4\nb slots=4\n"


def here(**environment):
    return make_machine(Path("/nowhere"), environment={"PATH": os.environ["PATH"], **environment})


def plan(machine, **options):
    return plan_launch(machine, "/env/python", seconds=1.0, **{"hostfile": None, "num_ranks": None} | options)


# --- who starts the ranks --------------------------------------------------------------------------


def test_on_one_machine_torchrun_starts_a_rank_for_each_gpu(tmp_path):
    command = plan(make_machine(tmp_path, nvml=dgx(4))).command
    assert command[:4] == ["/env/python", "-m", "torch.distributed.run", "--nproc-per-node=4"]
    assert "--nproc-per-node=2" in plan(here()).command
    assert "--nproc-per-node=3" in plan(here(), num_ranks=3).command
    with pytest.raises(InputError, match="one GPU has nobody to send to"):
        plan(make_machine(tmp_path, nvml=dgx(1)))


def test_under_torchrun_we_are_one_rank():
    outer = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1", "LOCAL_WORLD_SIZE": "1"}
    launch = plan(here(**outer))
    assert launch.command[:2][1].endswith("all_reduce.py")
    assert launch.environment["RANK"] == "1"
    assert not launch.is_first
    assert plan(here(**outer | {"RANK": "0"})).is_first


def test_in_a_step_of_srun_we_are_one_rank():
    step = {"SLURM_JOB_ID": "1", "SLURM_STEP_NUM_TASKS": "16", "SLURM_PROCID": "3", "SLURM_STEP_NODELIST": "n[07-08]"}
    launch = plan(here(**step))
    assert launch.command[0] == "/env/python"
    assert launch.environment["ZEROCONF_MASTER"] == "n07"
    assert not launch.is_first


def test_in_an_allocation_srun_starts_them(tmp_path):
    srun = tmp_path / "srun"
    srun.write_text("#!/bin/sh\n")
    srun.chmod(srun.stat().st_mode | stat.S_IXUSR)
    job = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_GPUS_ON_NODE": "4"}
    command = plan(make_machine(tmp_path, environment=job | {"PATH": str(tmp_path)})).command
    assert command[:4] == ["srun", "--ntasks=8", "--ntasks-per-node=4", "--kill-on-bad-exit=1"]
    with pytest.raises(InputError, match="srun is not on PATH"):
        plan(make_machine(tmp_path, environment=job | {"PATH": "/nowhere"}))


def test_deepspeeds_launcher_starts_those_of_a_hostfile(tmp_path):
    hostfile = tmp_path / "hostfile"
    hostfile.write_text(HOSTS)
    command = plan(here(), hostfile=str(hostfile)).command
    assert command[:4] == ["/env/python", "-m", "deepspeed.launcher.runner", f"--hostfile={hostfile}"]


# --- real ranks -----------------------------------------------------------------------------------


@pytest.mark.launch
def test_two_ranks_on_this_machine():
    seen = []
    found = measure(
        here(), python=sys.executable, num_ranks=2, seconds=2.0, on_progress=lambda *line: seen.append(line)
    )
    assert (found.num_ranks, found.num_nodes, found.backend, found.is_first) == (2, 1, "gloo", True)
    assert 1e6 < found.bytes_per_second < 1e11
    assert 1e-7 < found.latency_seconds < 0.5
    assert found.num_bytes >= 2**20
    assert seen[0] == (0.0, "starting the ranks")
    assert any("MiB at" in text for _, text in seen)
    shares = [share for share, _ in seen]
    assert shares == sorted(shares)
    assert shares[-1] <= 1.0


SRUN = """#!/bin/sh
# what srun does for two nodes with a task each, whose names are loopback addresses
while [ "${1#--}" != "$1" ]; do shift; done
for rank in 0 1; do
  SLURM_PROCID=$rank SLURM_NODEID=$rank SLURM_LOCALID=0 SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 "$@" &
done
wait
"""


@pytest.mark.launch
def test_ranks_of_a_slurm_step(tmp_path):
    srun = tmp_path / "srun"
    srun.write_text(SRUN)
    srun.chmod(srun.stat().st_mode | stat.S_IXUSR)
    job = {"SLURM_JOB_ID": str(free_port()), "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "127.0.0.[1-2]"}
    machine = here(**job | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    found = measure(machine, python=sys.executable, seconds=1.0)
    assert (found.num_ranks, found.num_nodes, found.backend) == (2, 2, "gloo")


@pytest.mark.launch
def test_ranks_that_an_outer_launcher_started_on_two_nodes(tmp_path):
    port = str(free_port())
    commands = []
    for rank in ("0", "1"):
        ranks = {"RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": rank}
        environment = dict(os.environ) | ranks | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        command = [sys.executable, "-m", "zeroconf", "detect", "--measure-network"]
        commands.append(subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True))
    first, second = (command.communicate(timeout=200)[0] for command in commands)
    values = yaml.safe_load(first)
    assert values["nodes"] == 2
    assert values["network"]["measured"] is True
    assert "gloo all-reduce" in first
    assert second == ""
    assert [command.returncode for command in commands] == [0, 0]


@pytest.mark.launch
def test_no_torch_is_one_sentence(tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -IS "$@"\n')
    bare.chmod(bare.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(InputError, match="has no torch; give --python the training environment's"):
        measure(here(), python=str(bare))


@pytest.mark.launch
def test_a_rank_that_never_comes_ends_in_time():
    alone = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    start = time.monotonic()
    with pytest.raises(InputError, match="no result within 8 seconds; see that every rank starts"):
        measure(here(**alone), python=sys.executable, seconds=1.0, start_seconds=7.0)
    assert time.monotonic() - start < 25


def tagged(tag):
    """Processes whose environment holds the tag."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if tag.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.launch
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_ctrl_c_leaves_no_process_and_no_file(tmp_path):
    tag = f"ZEROCONF_TEST_TAG={os.getpid()}-{time.monotonic_ns()}"
    name, _, value = tag.partition("=")
    command = [sys.executable, "-m", "zeroconf", "detect", "--measure-network"]
    environment = dict(os.environ) | {name: value, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 60
        # the guard, torchrun, and its ranks
        while len(tagged(tag)) < 5 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(tagged(tag)) >= 5
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.strip() == "error: interrupted"
    assert tagged(tag) == []
    assert [*tmp_path.iterdir()] == []
