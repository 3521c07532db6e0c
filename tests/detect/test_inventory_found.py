from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from machines import GIB, MIB, FakeNvml, dgx, dgx_in_slurm, interface, make_machine, meminfo, nvme_disk, rdma

from zeroconf.detect.auto import detected_cluster
from zeroconf.detect.findings import latency_text, rate_text, size_text
from zeroconf.detect.inventory import detect
from zeroconf.detect.machine import Machine
from zeroconf.detect.measured import Measured
from zeroconf.errors import InputError
from zeroconf.inputs.cluster import read_cluster
from zeroconf.inputs.inventory import Inventory, read_inventory
from zeroconf.render.inventory_yaml import inventory_yaml
from zeroconf.types import Cluster
from zeroconf.units import parse_bytes, parse_bytes_per_second

ASIDE = {"written_as", "sources", "unknown", "notes"}


def raid(path):
    return 28 * 2**40 if path.name == "raid" else None


def same_after_writing(findings, folder):
    """The inventory that the printed YAML is read as equals what was found."""
    path = folder / "cluster.yaml"
    path.write_text(inventory_yaml(findings), encoding="utf-8")
    read = read_inventory(path)
    assert read.model_dump(exclude=ASIDE) == findings.inventory().model_dump(exclude=ASIDE)
    return str(path)


def test_a_job_on_two_dgx(tmp_path):
    findings = detect(dgx_in_slurm(tmp_path), free_bytes=raid)
    assert findings.values == {
        "nodes": 2,
        "gpus_per_node": 8,
        "gpu": "A100-SXM4-80GB",
        "intra_node": "nvlink3",
        "host_memory": "1800GiB",
        "nvme": {"path": "/raid", "capacity": "28672GiB"},
        "network": "8xib-hdr",
    }
    assert [*findings.unknown] == ["nvme.read", "nvme.write"]
    assert findings.notes == ["ports that the network does not count: enp226s0 (25 Gb/s)"]
    assert findings.sources.keys() == findings.values.keys()
    read = read_cluster(same_after_writing(findings, tmp_path))
    assert isinstance(read, Cluster)
    assert (read.num_gpus, read.network.name, read.nvme.path) == (16, "8xib-hdr", "/raid")


def test_json_is_read_back_too(tmp_path):
    findings = detect(dgx_in_slurm(tmp_path / "root"), free_bytes=raid)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(findings.to_json()), encoding="utf-8")
    read = read_inventory(path)
    assert read == findings.inventory() == Inventory.model_validate(findings.to_json())
    assert [entry.key for entry in read.unknown] == ["nvme.read", "nvme.write"]


def test_every_gap_is_marked(tmp_path):
    findings = detect(make_machine(tmp_path))
    assert findings.values == {"nodes": 1}
    assert {*findings.unknown} == {"nodes", "gpus_per_node", "gpu", "host_memory", "network"}
    assert findings.sources.keys() == {"nvme"}
    lines = inventory_yaml(findings).splitlines()
    for key in ("gpus_per_node", "gpu", "host_memory", "network"):
        assert sum(line.startswith(f"# {key}: unknown; ") for line in lines) == 1
    assert lines[1].startswith("nodes: 1  # unknown; only this machine was looked at")
    assert any(line.startswith("# nvme: none: ") for line in lines)
    assert yaml.safe_load("\n".join(lines)) == {"nodes": 1}


def test_gaps_of_storage_and_network(tmp_path):
    files, links = nvme_disk("nvme0n1")
    findings = detect(make_machine(tmp_path, files | interface("eth0", "-1") | meminfo(512 * MIB), links))
    assert findings.unknown["nvme"].startswith("nvme0n1: nothing on it is mounted")
    assert findings.unknown["network"].startswith("eth0 does not say its rate; name it")
    assert "512 MiB by /proc/meminfo is too little" in findings.unknown["host_memory"]


def test_auto_is_the_same_cluster(tmp_path):
    machine = dgx_in_slurm(tmp_path)
    auto = detected_cluster(machine)
    read = read_cluster(same_after_writing(detect(machine), tmp_path))
    assert isinstance(auto, Cluster)
    assert (auto.name, auto.node_name) == ("2x8xA100-SXM4-80GB", "8xA100-SXM4-80GB")
    for field in ("num_nodes", "gpus_per_node", "gpu", "intra_node", "network", "host_memory_bytes"):
        assert getattr(auto, field) == getattr(read, field)
    assert "nodes: SLURM_JOB_NUM_NODES; the others are taken to be as this one" in auto.assumptions
    other = detected_cluster(machine, network="10gbe")
    assert other.network.name == "10gbe"


def test_auto_without_a_gpu_or_with_an_unknown_one(tmp_path):
    with pytest.raises(
        InputError, match=r"no GPU was found on this machine .*; name the hardware, like --hardware 8xA"
    ):
        detected_cluster(make_machine(tmp_path))
    odd = FakeNvml([{"name": "Falcon-9", "memory": 60 * GIB}])
    with pytest.raises(InputError, match=r"no Falcon-9; .* give gpu.bf16_tflops there, .* --hardware cluster.yaml"):
        detected_cluster(make_machine(tmp_path, nvml=odd))


def test_an_unknown_card_once_completed_is_read(tmp_path):
    findings = detect(make_machine(tmp_path, nvml=FakeNvml([{"name": "Falcon-9", "memory": 60 * GIB, "reserved": 0}])))
    text = inventory_yaml(findings).replace("  # bf16_tflops: unknown;", "  bf16_tflops: 312 #")
    path = tmp_path / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    read = read_cluster(str(path))
    assert (read.gpu.name, read.gpu.memory_bytes, read.gpu.half_flops_per_second) == ("Falcon-9", 60 * GIB, 312e12)


def measured(**changes):
    values = {"bytes_per_second": 1.0982e9, "latency_seconds": 23.456e-6, "num_ranks": 16, "num_nodes": 2}
    return Measured(**values | {"backend": "nccl", "num_bytes": 2**28} | changes)


def test_a_measured_network_is_not_derated(tmp_path):
    findings = detect(dgx_in_slurm(tmp_path), measured=measured())
    assert findings.values["network"] == {"bandwidth": "1.098GB/s", "measured": True, "latency": "23.46us"}
    assert "nccl all-reduce of 256 MiB between 16 ranks on 2 nodes" in findings.sources["network"]
    assert "the ports' line rate: 8xib-hdr" in findings.notes
    network = read_cluster(same_after_writing(findings, tmp_path)).network
    assert (network.bandwidth_bytes_per_second, network.confidence) == (1.098e9, "measured")
    assert network.latency_seconds == pytest.approx(23.46e-6)


def test_a_measurement_inside_a_node(tmp_path):
    inside = measured(num_nodes=1, num_ranks=8, bytes_per_second=235e9)
    findings = detect(make_machine(tmp_path, nvml=dgx()), measured=inside)
    assert findings.values["intra_node"] == "235GB/s"
    read = read_cluster(same_after_writing(findings, tmp_path))
    assert read.intra_node.bandwidth_bytes_per_second == 235e9
    # gloo measures the processors' memory, which says nothing about the GPUs' link
    gloo = detect(make_machine(tmp_path, nvml=dgx()), measured=measured(num_nodes=1, backend="gloo"))
    assert gloo.values["intra_node"] == "nvlink3"
    assert any("between processes, not between GPUs" in note for note in gloo.notes)


@given(st.integers(2**30, 10**16), st.floats(1e3, 1e13), st.floats(1e-9, 10))
def test_quantities_are_read_as_they_are_written(num_bytes, rate, latency):
    assert 0 <= num_bytes - parse_bytes(size_text(num_bytes)) < 0.11 * GIB
    assert parse_bytes_per_second(rate_text(rate)) == pytest.approx(rate, rel=1e-3)
    assert latency_text(latency).removesuffix("us").replace(".", "").isdigit()


# --- whatever the machine says -------------------------------------------------------------------

PATHS = [
    "/proc/meminfo",
    "/proc/mounts",
    "/proc/self/cgroup",
    "/proc/self/mountinfo",
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/a/memory.max",
    "/sys/block/nvme0n1/device/transport",
    "/sys/block/nvme0n1/device/model",
    "/sys/class/block/nvme0n1/partition",
    "/sys/class/block/nvme0n1/slaves/nvme0n1",
    "/sys/class/block/nvme0n1/slaves",
    "/sys/class/net/eth0/device",
    "/sys/class/net/eth0/bonding",
    "/sys/class/net/eth0/operstate",
    "/sys/class/net/eth0/speed",
    "/sys/class/net/eth0/type",
    "/sys/class/infiniband/mlx5_0/ports/1/state",
    "/sys/class/infiniband/mlx5_0/ports/1/rate",
    "/sys/class/infiniband/mlx5_0/ports/1/link_layer",
    "/sys/class/infiniband/mlx5_0/device/net",
]
LINES = [
    "MemTotal: 99999999999999999999 kB",
    "MemTotal: 67108864 kB",
    "/dev/nvme0n1 / ext4 rw 0 0",
    "/dev/nvme0n1 /\\777\\040 ext4 rw",
    "/dev/ / ext4 rw 0 0",
    "/dev/../../nvme0n1 /a\\ ext4 rw 0 0",
    "0::/../..",
    "0::/a",
    "4:memory:a",
    "36 31 0:33 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
    "36 31 0:33 /b /sys/fs/cgroup\\000 rw - cgroup cgroup rw,memory",
    "36 - cgroup2",
    "-1",
    "9" * 6000,
    "1e9",
    "up",
    "4: ACTIVE",
    "200 Gb/sec (4X HDR)",
    "0 Gb/sec",
    "999999.9 Gb/sec (9X \u00c5)",
    "InfiniBand",
    "tcp",
]
CONTENT = st.one_of(
    st.lists(st.sampled_from(LINES), max_size=4).map(lambda lines: "\n".join(lines).encode()),
    st.binary(max_size=40),
    st.sampled_from(["folder", "loop", "pipe"]),
)
NAMES = [
    "SLURM_JOB_ID",
    "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_NODELIST",
    "SLURM_GPUS_ON_NODE",
    "SLURM_JOB_GPUS",
    "SLURM_MEM_PER_NODE",
    "SLURM_HET_SIZE",
    "CUDA_VISIBLE_DEVICES",
    "NCCL_IB_HCA",
    "NCCL_SOCKET_IFNAME",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "RANK",
]
WORDS = st.one_of(
    st.sampled_from(["", "0", "2", "-1", "a[1-2]", "9" * 6000, "^=", "GPU-", "=,", "\udc80"]), st.text(max_size=8)
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(PATHS), CONTENT, max_size=12),
    st.dictionaries(st.sampled_from(NAMES), WORDS, max_size=5),
)
def test_nothing_that_a_machine_says_is_a_traceback(tmp_path_factory, files, environment):
    root = tmp_path_factory.mktemp("machine")
    for name, content in files.items():
        path = root / name.lstrip("/")
        if any(parent.is_symlink() or parent.is_file() or parent.is_fifo() for parent in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() or path.is_symlink():
            continue
        if content == "folder":
            path.mkdir()
        elif content == "loop":
            path.symlink_to(path)
        elif content == "pipe":
            os.mkfifo(path)
        else:
            path.write_bytes(content)
    findings = detect(make_machine(root, environment=environment, nvml=dgx(2)))
    text = inventory_yaml(findings)
    assert text.isascii()
    assert yaml.safe_load(text) == findings.values
    if "gpu" in findings.values:
        path = root / "cluster.yaml"
        path.write_text(text)
        assert isinstance(read_cluster(str(path)), Cluster)


FUNCTIONS = [name for name in dir(FakeNvml) if name.startswith("nvml")]
ANSWERS = [None, 0, -1, 10**30, "", b"\xff", "\n# x", [], (), (1,), "A100", object()]


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(FUNCTIONS), st.sampled_from(ANSWERS)))
def test_nothing_that_nvml_says_is_a_traceback(answers):
    nvml = dgx(2)
    for name, answer in answers.items():
        setattr(nvml, name, lambda *_arguments, answer=answer: answer)
    findings = detect(make_machine(Path("/nowhere"), nvml=nvml))
    assert yaml.safe_load(inventory_yaml(findings)) == findings.values


def test_an_rdma_port_needs_no_interface(tmp_path):
    findings = detect(make_machine(tmp_path, rdma("mlx5_0")))
    assert findings.values["network"] == "ib-hdr"


class Talking(Machine):
    """A machine whose programs print whatever is given."""

    answers = ()

    def run(self, *command):
        return next((text for word, text in self.answers if word in " ".join(command)), None)


PIECES = [
    *"0,1 \n\t{}\"':[]",
    *("GPU0", "GPU1", " X ", "NV12", "card0", "card1", "81920", "-1", "[N/A]", "system", "\x1b[4m", "\xff", "9" * 5000),
    "0, GPU-a, NVIDIA A100-SXM4-80GB, 81920, 4, 16\n",
    "1, GPU-b, NVIDIA A100-SXM4-80GB, [N/A], -4, x\n",
    '{"card0": {"Card Series": "AMD Instinct MI300X", "VRAM Total Memory (B)": "1e9"}, "card1": {}}',
    '{"system": {"(Topology) Link type between DRM devices 0 and 1": ["XGMI"]}}',
]
SAID = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["mig.mode", "query-gpu", "topo -m", "topotype", "meminfo"]), SAID))
def test_nothing_that_a_program_prints_is_a_traceback(answers):
    machine = Talking(root=Path("/nowhere"), environment={})
    Talking.answers = tuple(answers.items())
    findings = detect(machine)
    assert yaml.safe_load(inventory_yaml(findings)) == findings.values
