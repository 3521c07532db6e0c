"""Machines to look at: a folder as the root, an environment, and a module with NVML's functions."""

# ruff: noqa: N802  (pynvml's names)

from __future__ import annotations

import itertools
from types import SimpleNamespace

from zeroconf.detect.machine import Machine

MIB, GIB = 2**20, 2**30
A100 = "NVIDIA A100-SXM4-80GB"


class NVMLError(Exception):
    """As pynvml's, which every refusal raises."""

    def __str__(self):
        return "Not Supported"


class FakeNvml:
    """pynvml's functions as detect calls them, over a list of cards: dicts of name, memory, ...

    ``links`` are the pairs joined by NVLink; ``peers`` whether they read each other's memory. ``refuses`` names the
    functions that answer "not supported".
    """

    NVMLError = NVMLError
    NVML_CLOCK_MEM = 2
    NVML_NVLINK_DEVICE_TYPE_SWITCH = 2
    nvmlMemory_v2 = 0x02000028  # noqa: N815  (pynvml's name)

    def __init__(self, cards, links=(), *, switch=False, peers=True, refuses=(), as_bytes=False):
        self.cards = cards
        self.links = {frozenset(pair) for pair in links}
        self.switch, self.peers, self.refuses, self.as_bytes = switch, peers, set(refuses), as_bytes
        self.running = 0

    def __getattribute__(self, name):
        if name.startswith("nvml") and name in object.__getattribute__(self, "refuses"):
            return self.refuse
        return object.__getattribute__(self, name)

    def refuse(self, *_arguments):
        raise NVMLError

    def card(self, handle):
        if handle not in range(len(self.cards)):
            raise NVMLError
        return self.cards[handle]

    def words(self, text):
        return text.encode() if self.as_bytes else text

    def nvmlInit(self):
        self.running += 1

    def nvmlShutdown(self):
        self.running -= 1

    def nvmlSystemGetDriverVersion(self):
        return self.words("550.54.15")

    def nvmlDeviceGetCount(self):
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):
        self.card(index)
        return index

    def nvmlDeviceGetName(self, handle):
        return self.words(self.card(handle)["name"])

    def nvmlDeviceGetUUID(self, handle):
        return self.words(self.card(handle).get("uuid", f"GPU-{handle:08x}-0000"))

    def nvmlDeviceGetMemoryInfo(self, handle, version=None):
        total, reserved = self.card(handle).get("memory", 81920 * MIB), self.card(handle).get("reserved", 869 * MIB)
        return SimpleNamespace(total=total, reserved=reserved) if version else SimpleNamespace(total=total)

    def nvmlDeviceGetCudaComputeCapability(self, handle):
        return self.card(handle).get("capability", (8, 0))

    def nvmlDeviceGetMigMode(self, handle):
        return [int(self.card(handle).get("mig", False))] * 2

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle):
        return self.card(handle).get("pcie", 4)

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle):
        return self.card(handle).get("width", 16)

    def nvmlDeviceGetMemoryBusWidth(self, handle):
        return self.card(handle).get("bus", 5120)

    def nvmlDeviceGetMaxClockInfo(self, handle, what):
        assert what == self.NVML_CLOCK_MEM
        return self.card(handle).get("clock", 1593)

    def nvmlDeviceGetP2PStatus(self, first, second, what):
        joined = frozenset((first, second)) in self.links
        # 0 is OK, 5 "not supported"
        return 0 if (joined if what == 2 else self.peers) else 5

    def nvmlDeviceGetNvLinkState(self, handle, link):
        if link >= 12:
            raise NVMLError
        return int(any(handle in pair for pair in self.links))

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, _handle, _link):
        return 2 if self.switch else 0


def all_pairs(number):
    return list(itertools.combinations(range(number), 2))


def dgx(number=8):
    """The NVML of a DGX A100."""
    return FakeNvml([{"name": A100}] * number, all_pairs(number), switch=True)


def make_machine(root, files=None, links=None, *, environment=None, nvml=None):
    """A machine with these files, links (path: target inside the root) and nothing else."""
    for name, content in (files or {}).items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, target in (links or {}).items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        (root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)
        path.symlink_to(root / target.lstrip("/"))
    return Machine(root=root, environment=environment or {}, nvml=nvml)


def meminfo(num_bytes):
    return {"/proc/meminfo": f"MemTotal:       {num_bytes // 1024} kB\nMemFree:        1 kB\n"}


def nvme_disk(name, *, model="SAMSUNG MZ1L21T9HCLS-00A07", transport="pcie", partitions=()):
    """Files and links of a disk and its partitions."""
    folder = f"/sys/devices/pci0000:00/nvme/{name}"
    files = {f"{folder}/queue/rotational": "0\n"}
    controller = {f"{folder}/device/model": f"{model}   \n", f"{folder}/device/transport": f"{transport}\n"}
    links = {f"/sys/block/{name}": folder, f"/sys/class/block/{name}": folder}
    for number in partitions:
        part = f"{name}p{number}"
        files[f"{folder}/{part}/partition"] = f"{number}\n"
        links[f"/sys/class/block/{part}"] = f"{folder}/{part}"
    return files | controller, links


def interface(name, speed="25000", *, state="up", **more):
    """Files of a physical network interface."""
    folder = f"/sys/class/net/{name}"
    files = {f"{folder}/speed": f"{speed}\n", f"{folder}/operstate": f"{state}\n", f"{folder}/type": "1\n"}
    return files | {f"{folder}/device": None} | {f"{folder}/{key}": value for key, value in more.items()}


def rdma(device, rate="200 Gb/sec (4X HDR)", *, layer="InfiniBand", state="4: ACTIVE", port=1):
    """Files of an RDMA device's port."""
    folder = f"/sys/class/infiniband/{device}/ports/{port}"
    return {f"{folder}/rate": f"{rate}\n", f"{folder}/state": f"{state}\n", f"{folder}/link_layer": f"{layer}\n"}


def dgx_in_slurm(root):
    """One of two DGX A100 in a Slurm job: 8 GPUs on NVSwitch, RAID of NVMe, 8 HDR ports and a slower one."""
    files = meminfo(2 * 2**40)
    links = {}
    for number in range(4):
        more, more_links = nvme_disk(f"nvme{number}n1")
        files |= more
        links |= more_links
    links["/sys/class/block/md0"] = "/sys/devices/virtual/block/md0"
    for number in range(4):
        files[f"/sys/devices/virtual/block/md0/slaves/nvme{number}n1"] = None
    files["/proc/mounts"] = "/dev/md0 /raid ext4 rw,relatime 0 0\n/dev/sda2 / ext4 rw,relatime 0 0\n"
    for number in range(8):
        files |= rdma(f"mlx5_{number}")
    files |= interface("enp226s0", "25000") | {"/sys/class/net/lo/operstate": "unknown\n"}
    environment = {
        "SLURM_JOB_ID": "4711",
        "SLURMD_NODENAME": "dgx07",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_NODELIST": "dgx[07-08]",
        "SLURM_GPUS_ON_NODE": "8",
        "SLURM_MEM_PER_NODE": "1843200",
    }
    return make_machine(root, files, links, environment=environment, nvml=dgx())
