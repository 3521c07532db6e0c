from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from machines import GIB, make_machine, meminfo, nvme_disk

from zeroconf.detect.host import free_memory, host_memory, total_elsewhere
from zeroconf.detect.machine import Machine
from zeroconf.detect.storage import free_bytes, storage

V1 = "35 31 0:32 {root} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
V2 = "36 31 0:33 {root} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
MIB = 2**20
UNLIMITED = "9223372036854771712\n"


def memory(root, files):
    return host_memory(make_machine(root, meminfo(256 * GIB) | files))


def test_no_limit(tmp_path):
    found = memory(tmp_path, {})
    assert (found.usable_bytes, found.limit_bytes) == (256 * GIB, None)
    assert host_memory(make_machine(tmp_path / "nothing")).usable_bytes is None


def test_version_2_counts_every_group_above_ours(tmp_path):
    files = {
        "/proc/self/cgroup": "0::/slurm/job_1/step_0\n",
        "/proc/self/mountinfo": V2.format(root="/"),
        "/sys/fs/cgroup/slurm/job_1/step_0/memory.max": "max\n",
        "/sys/fs/cgroup/slurm/job_1/memory.max": f"{64 * GIB}\n",
        "/sys/fs/cgroup/slurm/memory.max": f"{128 * GIB}\n",
    }
    found = memory(tmp_path, files)
    assert found.usable_bytes == 64 * GIB
    assert found.limit_path == "/sys/fs/cgroup/slurm/job_1/memory.max"


def test_version_1_beside_an_empty_version_2(tmp_path):
    files = {
        "/proc/self/cgroup": "9:name=systemd:/\n4:memory:/docker/abc/inner\n0::/\n",
        "/proc/self/mountinfo": V1.format(root="/") + V2.format(root="/").replace("/sys/fs/cgroup ", "/unified "),
        "/sys/fs/cgroup/memory/docker/abc/inner/memory.limit_in_bytes": UNLIMITED,
        "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": f"{16 * GIB}\n",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": UNLIMITED,
    }
    assert memory(tmp_path, files).usable_bytes == 16 * GIB


@pytest.mark.parametrize(
    ("line", "mount", "file"), [("4:memory:", V1, "memory/memory.limit_in_bytes"), ("0::", V2, "memory.max")]
)
def test_a_container_sees_its_own_group_as_the_root(tmp_path, line, mount, file):
    files = {
        "/proc/self/cgroup": f"{line}/kubepods/pod1/c d\n",
        "/proc/self/mountinfo": mount.format(root="/kubepods/pod1/c\\040d"),
        f"/sys/fs/cgroup/{file}": f"{32 * GIB}\n",
    }
    assert memory(tmp_path, files).usable_bytes == 32 * GIB
    # with a name space of its own the group is called /
    files |= {"/proc/self/cgroup": f"{line}/\n", "/proc/self/mountinfo": mount.format(root="/")}
    assert memory(tmp_path, files).usable_bytes == 32 * GIB


def test_a_limit_above_the_memory_is_none(tmp_path):
    files = {"/proc/self/mountinfo": V2.format(root="/"), "/sys/fs/cgroup/memory.max": f"{512 * GIB}\n"}
    assert memory(tmp_path, files | {"/proc/self/cgroup": "0::/\n"}).limit_bytes is None


def test_free_memory_is_what_the_kernel_or_the_limit_leaves(tmp_path):
    def free(name, files):
        machine = make_machine(tmp_path / name, {"/proc/meminfo": f"MemTotal: {256 * MIB} kB\n{available}"} | files)
        return free_memory(machine, host_memory(machine))

    available = f"MemAvailable:   {20 * MIB} kB\n"
    assert free("none", {}) == 20 * GIB
    group = {
        "/proc/self/cgroup": "0::/job\n",
        "/proc/self/mountinfo": V2.format(root="/"),
        "/sys/fs/cgroup/job/memory.max": f"{16 * GIB}\n",
        "/sys/fs/cgroup/job/memory.current": f"{15 * GIB}\n",
        "/sys/fs/cgroup/job/memory.stat": f"anon {10 * GIB}\ninactive_file {4 * GIB}\nactive_file {GIB}\n",
    }
    assert free("limited", group) == 5 * GIB
    # of version 1 the sum over the groups below counts
    old = {
        "/proc/self/cgroup": "4:memory:/job\n",
        "/proc/self/mountinfo": V1.format(root="/"),
        "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{16 * GIB}\n",
        "/sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{15 * GIB}\n",
        "/sys/fs/cgroup/memory/job/memory.stat": f"inactive_file {GIB}\ntotal_inactive_file {4 * GIB}\n",
    }
    assert free("old", old) == 5 * GIB
    available = ""
    assert free("unknown", {}) is None


@contextlib.contextmanager
def real_group(limit):
    """A memory group of version 1 or 2 below the machine's root; skips where none can be made."""
    roots = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
    for root, file in roots:
        group = Path(root, f"zeroconf-test-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            inner = group / "inner"
            inner.mkdir()
            (group / file).write_text(str(limit))
            yield inner
        except OSError:
            continue
        finally:
            for folder in (group / "inner", group):
                with contextlib.suppress(OSError):
                    folder.rmdir()
        return
    pytest.skip("no memory group can be made here")


def test_in_a_real_limited_group():
    limit = 3 * GIB
    with real_group(limit) as group:
        code = (
            "import os, sys; open(sys.argv[1] + '/cgroup.procs', 'w').write(str(os.getpid()));"
            "from zeroconf.detect.host import host_memory; from zeroconf.detect.machine import Machine;"
            "print(host_memory(Machine()).usable_bytes)"
        )
        ran = subprocess.run([sys.executable, "-c", code, str(group)], capture_output=True, text=True, check=False)
    if "Errno" in ran.stderr:
        pytest.skip("this process may not be moved to another group")
    assert ran.stdout.strip() == str(limit)


def test_this_machine():
    assert host_memory(Machine()).usable_bytes > GIB // 2
    # what other systems are asked counts the same memory
    assert total_elsewhere() == pytest.approx(host_memory(Machine()).total_bytes, rel=0.01)


# --- storage --------------------------------------------------------------------------------------


def disks(root, mounts, *made, room=None, more=None, more_links=None):
    files, links = {"/proc/mounts": mounts} | (more or {}), dict(more_links or {})
    for disk in made:
        files |= disk[0]
        links |= disk[1]
    sizes = room or {}
    return storage(make_machine(root, files, links), lambda path: sizes.get(str(Path("/", path.relative_to(root)))))


def test_the_mount_with_most_room(tmp_path):
    mounts = (
        "/dev/nvme0n1p2 / ext4 rw,relatime 0 0\n/dev/nvme0n1p1 /boot/efi vfat rw 0 0\n"
        "/dev/nvme1n1 /mnt/my\\040disk xfs rw,noatime 0 0\n/dev/nvme2n1 /ro xfs ro 0 0\ntmpfs /run tmpfs rw 0 0\n"
    )
    made = (nvme_disk("nvme0n1", partitions=(1, 2)), nvme_disk("nvme1n1"), nvme_disk("nvme2n1"), nvme_disk("nvme3n1"))
    room = {"/": 100 * GIB, "/boot/efi": GIB // 2, "/mnt/my disk": 3000 * GIB, "/ro": 9000 * GIB, "/run": 9000 * GIB}
    found = disks(tmp_path, mounts, *made, room=room)
    assert [(mount.path, mount.device, mount.free_bytes) for mount in found.mounts] == [
        ("/mnt/my disk", "nvme1n1", 3000 * GIB),
        ("/", "nvme0n1p2", 100 * GIB),
    ]
    assert found.unmounted == ("nvme2n1", "nvme3n1")


@pytest.mark.parametrize(
    "odd",
    [
        {"model": "Amazon Elastic Block Store"},
        {"model": "nvme_card-pd"},
        {"model": "MSFT NVMe Accelerator v1.0"},
        {"transport": "tcp"},
    ],
)
def test_disks_behind_a_network_do_not_count(tmp_path, odd):
    mounts = "/dev/nvme0n1 / ext4 rw 0 0\n/dev/nvme1n1 /local ext4 rw 0 0\n"
    made = nvme_disk("nvme0n1", **odd), nvme_disk("nvme1n1", model="Amazon EC2 NVMe Instance Storage")
    found = disks(tmp_path, mounts, *made, room={"/": 9000 * GIB, "/local": 100 * GIB})
    assert [mount.path for mount in found.mounts] == ["/local"]
    assert found.remote == ("nvme0n1",)


def volume(name, *members):
    files = {f"/sys/devices/virtual/block/{name}/slaves/{member}": None for member in members}
    return files, {f"/sys/class/block/{name}": f"/sys/devices/virtual/block/{name}"}


def test_a_raid_and_a_logical_volume(tmp_path):
    mounts = "/dev/mapper/vg-data /data ext4 rw 0 0\n/dev/md0 /mixed ext4 rw 0 0\n"
    plain = {"/sys/devices/ata/sda/size": "1\n"}, {"/sys/class/block/sda": "/sys/devices/ata/sda"}
    made = (
        nvme_disk("nvme0n1", partitions=(1,)),
        nvme_disk("nvme1n1"),
        volume("dm-0", "nvme0n1p1", "nvme1n1"),
        volume("md0", "nvme1n1", "sda"),
        plain,
    )
    more_links = {"/dev/mapper/vg-data": "/dev/dm-0"}
    found = disks(tmp_path, mounts, *made, room={"/data": 200 * GIB, "/mixed": 900 * GIB}, more_links=more_links)
    assert [(mount.path, mount.drives) for mount in found.mounts] == [("/data", ("nvme0n1", "nvme1n1"))]


def test_a_container_mounts_one_device_many_times(tmp_path):
    mounts = "".join(f"/dev/nvme0n1p1 {path} ext4 rw 0 0\n" for path in ("/data", "/data/sub", "/etc/hosts"))
    room = {"/data": 50 * GIB, "/data/sub": 50 * GIB}
    found = disks(tmp_path, mounts, nvme_disk("nvme0n1", partitions=(1,)), room=room)
    assert [mount.path for mount in found.mounts] == ["/data"]


def test_free_bytes_is_of_writable_folders(tmp_path):
    said = os.statvfs(tmp_path)
    # other programs write meanwhile
    assert free_bytes(tmp_path) == pytest.approx(said.f_bavail * said.f_frsize, abs=2 * GIB)
    (tmp_path / "file").write_text("")
    assert free_bytes(tmp_path / "file") is None
    assert free_bytes(tmp_path / "missing") is None
