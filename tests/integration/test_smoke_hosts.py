"""Several hosts for real: two network namespaces, the real launchers, pdsh and Slurm where they are installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from slurm import has_slurm, slurm
from two_hosts import NAMES, can_make_hosts, two_hosts

from zeroconf.smoke.command import cache_directory

pytestmark = [
    pytest.mark.launch,
    pytest.mark.skipif(not can_make_hosts(), reason="network namespaces need root and iproute2"),
]
needs_pdsh = pytest.mark.skipif(shutil.which("pdsh") is None, reason="DeepSpeed's launcher needs pdsh")
CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 1000},
}
CACHE = cache_directory()
STEPS = 3


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hosts")
    with two_hosts(folder) as made:
        # DeepSpeed's launcher would use it against every job of this user
        (folder / "pkill").write_text(f"#!/bin/sh\necho $@ >> {folder}/pkilled\n", encoding="utf-8")
        (folder / "pkill").chmod(0o755)
        made.give()
        yield made


@pytest.fixture
def ds_config(tmp_path):
    path = tmp_path / "ds_config.json"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    return path


def command(config: Path, *options: str) -> list[str]:
    model = ["--model", "tiny", "--device", "cpu", "--steps", str(STEPS)]
    return [sys.executable, "-m", "zeroconf", "smoke-test", str(config), *model, *options]


def smoke_test(hosts, config, *options, cache=CACHE, hostfile=None):
    where = ["--hostfile", str(hostfile or hosts.hostfile)]
    return subprocess.run(
        command(config, *where, *options),
        env=hosts.environment(ZEROCONF_CACHE=str(cache), SECRET_TOKEN="hunter2"),  # noqa: S106
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip


def ssh(hosts, host: str, words: str) -> str:
    return subprocess.run([hosts.folder / "ssh", host, words], capture_output=True, text=True, check=True).stdout


def sent_bytes(hosts, host: str) -> int:
    (line,) = re.findall(r"^\s*zc\S*:(.*)$", ssh(hosts, host, "cat /proc/net/dev"), re.MULTILINE)
    return int(line.split()[8])


def processes() -> list[str]:
    """Command lines that name the folder of a run on several hosts: guards, launchers and ranks all do."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(CACHE / "runs") in words:
            found.append(words)
    return found


def left(hosts) -> list[object]:
    return [*processes(), *(CACHE / "runs").iterdir(), *hosts.temporary.iterdir()]


def assert_clean(hosts) -> None:
    deadline = time.monotonic() + 15
    while left(hosts) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left(hosts) == []


@pytest.mark.parametrize("launcher", ["torchrun", pytest.param("deepspeed", marks=needs_pdsh)])
def test_ranks_of_two_hosts_train_together(hosts, ds_config, launcher):
    before = [sent_bytes(hosts, host) for host in NAMES]
    ran = smoke_test(hosts, ds_config, "--launcher", launcher, "--json")
    sent = [sent_bytes(hosts, host) - was for host, was in zip(NAMES, before, strict=True)]
    assert ran.returncode == 0, ran.stdout + ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["outcome"] == "fits"
    assert [rank["rank"] for rank in answer["ranks"]] == [0, 1]
    for rank, crossed in zip(answer["ranks"], sent, strict=True):
        assert rank["losses"][-1] < rank["losses"][0]
        # it is counted as NCCL sends it; gloo's part for a ring of two is no less
        assert crossed > STEPS * rank["bytes_sent"]
    environment = answer["environment"]
    assert environment["hosts"] == dict.fromkeys(NAMES, 1)
    assert environment["host"] == NAMES[0]
    assert environment["launcher"] == launcher
    assert environment["variables"]["GLOO_SOCKET_IFNAME"].startswith("zc")
    assert "hunter2" not in ran.stdout + ran.stderr + Path(answer["log_path"]).read_text(encoding="utf-8")
    assert_clean(hosts)


@pytest.mark.parametrize(
    ("launcher", "number", "code"),
    [
        ("torchrun", signal.SIGINT, 130),
        pytest.param("deepspeed", signal.SIGKILL, -signal.SIGKILL, marks=needs_pdsh),
    ],
)
def test_nothing_is_left_on_any_host(hosts, ds_config, launcher, number, code):
    words = command(ds_config, "--hostfile", str(hosts.hostfile), "--launcher", launcher)
    environment = hosts.environment(ZEROCONF_CACHE=str(CACHE))
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as zeroconf:
        assert zeroconf.stderr is not None
        for line in zeroconf.stderr:
            if line.startswith("reading the"):
                break
        assert len([words for words in processes() if "rank.py" in words]) >= 2
        zeroconf.send_signal(number)
        assert zeroconf.wait(30) == code
    assert_clean(hosts)
    # this user's other jobs on these hosts go on
    assert not (hosts.folder / "pkilled").exists()


@needs_pdsh
def test_a_rank_that_is_killed_on_another_host_ends_all_at_once(hosts, ds_config):
    # pdsh by itself waits for the first host, whose rank waits for the killed one
    hosts.give(ZEROCONF_INJECT="killed@1:build")
    try:
        ran = smoke_test(hosts, ds_config, "--launcher", "deepspeed", "--json")
    finally:
        hosts.give()
    answer = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert answer["outcome"] == "host-oom"
    assert "killed" in answer["explanation"]
    assert_clean(hosts)


def test_a_host_that_cannot_be_reached_is_named(hosts, ds_config, tmp_path):
    path = tmp_path / "hosts"
    path.write_text("node-0 slots=1\nnode-9 slots=1\n", encoding="utf-8")
    ran = smoke_test(hosts, ds_config, hostfile=path)
    assert ran.returncode == 4
    line = ran.stderr.splitlines()[-1]
    assert "node-9 was not reached" in line
    assert "Connection refused" in line
    assert "without a password" in line
    assert_clean(hosts)


def test_a_cache_that_the_hosts_do_not_share_is_named(hosts, ds_config, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    ssh(hosts, NAMES[1], f"mount -t tmpfs none {cache}")
    try:
        ran = smoke_test(hosts, ds_config, cache=cache)
    finally:
        ssh(hosts, NAMES[1], f"umount {cache}")
    assert ran.returncode == 4
    assert f"node-1 does not see {cache}; set ZEROCONF_CACHE" in ran.stderr
    assert list((cache / "runs").iterdir()) == []


@pytest.mark.skipif(not has_slurm(), reason="slurmctld, slurmd and munge are not installed")
def test_a_slurm_job_of_two_nodes(hosts, ds_config):
    words = " ".join(command(ds_config, "--launcher", "srun", "--num-gpus", "1", "--json"))
    with slurm(hosts) as path:
        given = f"PATH=/usr/bin:/bin SLURM_CONF={path} PYTHONPATH={os.getcwd()} ZEROCONF_CACHE={CACHE}"  # noqa: PTH109
        answer = json.loads(ssh(hosts, NAMES[0], f"export {given}; salloc -N2 -n2 {words}"))
    assert answer["outcome"] == "fits"
    assert answer["environment"]["hosts"] == dict.fromkeys(NAMES, 1)
    assert [rank["rank"] for rank in answer["ranks"]] == [0, 1]
    assert answer["ranks"][0]["losses"] != answer["ranks"][1]["losses"]
    assert_clean(hosts)
