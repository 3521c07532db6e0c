from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import caches
import host
import pytest
import world

from zeroconf.errors import InputError, SmokeTestError
from zeroconf.smoke import hosts as several
from zeroconf.smoke.command import WORKER
from zeroconf.smoke.hosts import Hosts, environment_of_ranks, failed_codes, find_hosts, host_commands, ranks_command
from zeroconf.smoke.prepared import check, differences, read_answers

TWO = Hosts({"ann@node-1": 2, "node-2": 4}, Path("/shared/hosts"))
SLURM = Hosts({"gpu01": 4, "gpu02": 4}, cpus=64)


@pytest.fixture
def hostfile(tmp_path, monkeypatch):
    """Writes a hostfile; every program is on PATH."""
    monkeypatch.setattr(several.shutil, "which", lambda program: f"/usr/bin/{program}")

    def write(text: str) -> Path:
        path = tmp_path / "hosts"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_hostfile_says_the_hosts_and_their_ranks(hostfile):
    found = find_hosts("torchrun", hostfile("# two\nann@node-1 slots=2\nnode-2 slots=4\n"), None)
    assert found is not None
    assert found.slots == {"ann@node-1": 2, "node-2": 4}
    assert found.num_ranks == 6
    assert found.meeting_place == "node-1"
    assert find_hosts("torchrun", None, 4) is None


@pytest.mark.parametrize(
    ("launcher", "text", "per_host", "error"),
    [
        ("accelerate", "a slots=1\nb slots=1\n", None, "use --launcher deepspeed or torchrun"),
        ("torchrun", "a slots=1\nb slots=0\n", None, "b has no slots"),
        ("torchrun", "localhost slots=8\nb slots=8\n", None, "localhost is another machine on each host"),
        ("deepspeed", "a slots=8\n", None, "starts the ranks on this machine"),
        ("torchrun", "a slots=8\n", 4, "--num-gpus has no effect here"),
        ("torchrun", "a 8\n", None, "line 1 is no entry"),
        ("srun", "a slots=8\n", None, "--hostfile has no effect here"),
    ],
)
def test_what_a_launcher_cannot_do_with_a_hostfile_is_refused(hostfile, launcher, text, per_host, error):
    with pytest.raises(InputError, match=error):
        find_hosts(launcher, hostfile(text), per_host)


@pytest.mark.parametrize(("launcher", "missing"), [("torchrun", "ssh"), ("deepspeed", "pdsh")])
def test_a_missing_program_is_named(hostfile, monkeypatch, launcher, missing):
    path = hostfile("a slots=1\nb slots=1\n")
    monkeypatch.setattr(several.shutil, "which", lambda program: None if program == missing else program)
    with pytest.raises(InputError, match=f"^{missing} is not on PATH"):
        find_hosts(launcher, path, None)


def test_a_slurm_job_has_its_nodes(monkeypatch):
    monkeypatch.setattr(several.shutil, "which", str)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(InputError, match="needs a Slurm allocation"):
        find_hosts("srun", None, None)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "gpu[01-02]")
    with pytest.raises(InputError, match="give --num-gpus, the ranks on each node"):
        find_hosts("srun", None, None)
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "64")
    assert find_hosts("srun", None, None) == SLURM
    assert find_hosts("srun", None, 2) == Hosts({"gpu01": 2, "gpu02": 2}, cpus=64)


def test_srun_gets_a_task_for_each_rank_and_all_cpus(tmp_path):
    command = ranks_command(SLURM, "srun", "/env/bin/python", tmp_path, "ranks", 4711)
    assert command[:5] == ["srun", "--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--cpus-per-task=16"]
    assert "--overcommit" not in command
    assert command[-5:] == ["/env/bin/python", str(WORKER / "host.py"), str(tmp_path), "ranks", "SLURM_NODEID"]
    assert environment_of_ranks(SLURM, "srun", 4711) == {"MASTER_ADDR": "gpu01", "MASTER_PORT": "4711"}
    few = ranks_command(Hosts({"a": 4}, cpus=1), "srun", "python", tmp_path, "ranks", 1)
    assert {"--cpus-per-task=1", "--overcommit"} <= set(few)


def test_torchrun_meets_at_the_first_host(tmp_path):
    first, second = host_commands(TWO, "torchrun", "/env/bin/python", tmp_path, 4711)
    for command in (first, second):
        assert {"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=node-1:4711"} <= set(command)
    assert {"--nproc-per-node=2", "--rdzv-conf=is_host=true", "--local-addr=node-1"} <= set(first)
    assert {"--nproc-per-node=4", "--rdzv-conf=is_host=false", "--local-addr=node-2"} <= set(second)


def test_ssh_brings_the_variables_of_the_network_and_no_others(monkeypatch):
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "ib0")
    monkeypatch.setenv("WANDB_API_KEY", "hunter2")
    assert environment_of_ranks(TWO, "torchrun", 1)["NCCL_SOCKET_IFNAME"] == "ib0"
    assert "WANDB_API_KEY" not in environment_of_ranks(TWO, "torchrun", 1)
    assert environment_of_ranks(TWO, "deepspeed", 1) == {}


def test_what_is_written_down_of_the_environment_holds_no_secret(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    record = world.communication(gpu=False)
    assert record["variables"]["NCCL_DEBUG"] == "INFO"
    assert "hunter2" not in json.dumps(record)


# the part of a host


def start(folder: Path, command: list[str], **variables: str) -> subprocess.Popen[str]:
    """host.py as the first node, with a plan for it alone."""
    plan = [{"command": command, "environment": {"GIVEN": "yes"}, "ranks": 2, "meet": "localhost"}]
    (folder / "ranks.json").write_text(json.dumps(plan), encoding="utf-8")
    words = [sys.executable, "-S", str(WORKER / "host.py"), str(folder), "ranks"]
    node = "SLURM_NODEID" if "SLURM_NODEID" in variables else "0"
    environment = {"PATH": os.environ["PATH"]} | variables
    return subprocess.Popen([*words, node], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


SHOW = "import json, os, sys; print(json.dumps(dict(os.environ)), flush=True); sys.exit(3)"
WAIT = "import os, time; print(os.getpid(), os.environ['TMPDIR'], flush=True); time.sleep(60)"


def test_a_host_runs_its_part_with_what_it_was_given(tmp_path):
    (tmp_path / "alive").touch()
    process = start(tmp_path, [sys.executable, "-IS", "-c", SHOW])
    out, _ = process.communicate(timeout=20)
    seen = json.loads(out)
    assert process.returncode == 3
    assert failed_codes(tmp_path, "ranks") == [3]
    assert seen["GIVEN"] == "yes"
    assert seen["OMP_NUM_THREADS"] == str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert not Path(seen["TMPDIR"]).exists()


@pytest.mark.parametrize(("devices", "local_rank"), [("0,1", "1"), ("1", "0"), (None, "1")])
def test_a_slurm_task_knows_its_rank(tmp_path, devices, local_rank):
    (tmp_path / "alive").touch()
    task = {"SLURM_NODEID": "0", "SLURM_PROCID": "5", "SLURM_LOCALID": "1"}
    task |= {"SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}
    if devices is not None:
        task["CUDA_VISIBLE_DEVICES"] = devices
    out, _ = start(tmp_path, [sys.executable, "-IS", "-c", SHOW], **task).communicate(timeout=20)
    seen = json.loads(out)
    assert [seen[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")] == ["5", "8", "4"]
    assert seen["LOCAL_RANK"] == local_rank


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_host_ends_its_part_when_the_sign_of_life_goes(tmp_path):
    (tmp_path / "alive").touch()
    process = start(tmp_path, [sys.executable, "-IS", "-c", WAIT])
    assert process.stdout is not None
    pid, temporary = process.stdout.readline().split()
    (tmp_path / "alive").unlink()
    process.communicate(timeout=20)
    assert not Path(f"/proc/{pid}").exists()
    assert not Path(temporary).exists()


def test_a_sign_that_stands_still_is_silence(tmp_path, monkeypatch):
    sign, now = tmp_path / "alive", [100.0]
    monkeypatch.setattr(host.time, "monotonic", lambda: now[0])
    sign.write_text("1")
    heart = host.Heart(sign)
    for beat in range(5):
        now[0] += 15
        sign.write_text(str(beat))
        assert heart.beats()
    now[0] += 15
    assert heart.beats()
    now[0] += 15
    assert not heart.beats()


def test_a_folder_that_a_host_does_not_see_is_said(tmp_path):
    words = [sys.executable, "-S", str(WORKER / "host.py"), str(tmp_path / "nowhere"), "ranks", "0"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith("SharedFolderError: ")


def test_the_interface_to_this_machine_alone_is_none():
    assert host.interface_to("127.0.0.1") == ""
    assert host.interface_to("no such host") == ""


# over ssh


def over_ssh(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> subprocess.CompletedProcess[str]:
    """Two hosts, with a shell script for ssh; its host is $host."""
    ssh = folder / "ssh"
    ssh.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nhost=$2\n' + script, encoding="utf-8")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    words = [sys.executable, "-IS", str(WORKER / "over_ssh.py"), "python", str(folder), "ranks", "a", "b"]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)


def test_all_hosts_are_waited_for(tmp_path, monkeypatch):
    ran = over_ssh(tmp_path, "echo $host", monkeypatch)
    assert ran.returncode == 0
    assert sorted(ran.stdout.split()) == ["a", "b"]


def test_one_host_that_fails_ends_the_others(tmp_path, monkeypatch):
    began = time.monotonic()
    ran = over_ssh(tmp_path, '[ $host = a ] && exec sleep 60; echo "no route" >&2; exit 255', monkeypatch)
    assert time.monotonic() - began < 15
    assert ran.returncode == 255
    assert "SSHError: b was not reached or was lost: no route" in ran.stderr


def test_a_host_that_never_ends_its_line_takes_no_memory(tmp_path, monkeypatch):
    flood = "head -c 30000000 /dev/zero | tr '\\0' z >&2; exit 255"
    ran = over_ssh(tmp_path, flood, monkeypatch)
    assert len(ran.stderr) >= 30_000_000
    last = ran.stderr.splitlines()[-1]
    assert re.search("SSHError: [ab] was not reached or was lost: zzz", last)
    assert len(last) - last.rindex("SSHError") < 70_000


# what the hosts answered

ANSWER = {"missing": [], "versions": {"torch": "2.13.0"}, "python": "3.11.7", "driver": "", "num_devices": 4}
ANSWER |= {"device": "cuda"}


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"missing": ["deepspeed"]}, "python on b has no deepspeed"),
        ({"num_devices": 1}, "2 processes were asked for, b has 1 GPUs; lower its slots"),
        ({"device": "cpu"}, "sees GPUs on a and none on b"),
    ],
)
def test_the_host_that_cannot_is_named(changed, error):
    with pytest.raises(SmokeTestError, match=error):
        check([ANSWER, ANSWER | changed], ["a", "b"], [2, 2], python="python", device="auto")


def test_hosts_that_differ_are_told():
    other = ANSWER | {"versions": {"torch": "2.6.0"}, "driver": "535.161.07"}
    assert list(differences([ANSWER, other], ["a", "b"])) == [
        "torch is 2.13.0 on a and 2.6.0 on b",
        "driver is missing on a and 535.161.07 on b",
    ]
    assert list(differences([ANSWER, ANSWER], ["a", "b"])) == []


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("SSHError: b was not reached or was lost: Permission denied (publickey).", "^b was .*`ssh b` must work"),
        ("SharedFolderError: b does not have it: No such file", "^b does not see .* set ZEROCONF_CACHE"),
        ("srun: error: Unable to create step for job 2: More processors requested than permitted", "More processors"),
    ],
)
def test_why_a_host_has_no_answer(tmp_path, said, error):
    log = tmp_path / "log"
    log.write_text(f"something\n{said}\n", encoding="utf-8")
    with pytest.raises(SmokeTestError, match=error):
        # a was ended because b failed
        read_answers(tmp_path, "python", ["a", "b"], log)


# locks of a cache that several hosts share


def test_a_lock_that_another_holds_is_left(tmp_path):
    lock = tmp_path / "build.flock"
    with caches.locked_if_free(lock) as free:
        assert free
        with caches.locked_if_free(lock) as again:
            assert not again
    with caches.locked_if_free(lock) as free:
        assert free


def test_a_file_system_without_locks_has_none_to_wait_for(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with caches.locked(tmp_path / "lock"), caches.locked_if_free(tmp_path / "lock") as free:
        assert free
