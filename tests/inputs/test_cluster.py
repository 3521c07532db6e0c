from __future__ import annotations

import pytest

from zeroconf.errors import InputError
from zeroconf.inputs.cluster import read_cluster
from zeroconf.types import Cluster, GpuType
from zeroconf.units import GIB


def cluster(hardware: str, **options: str) -> Cluster:
    read = read_cluster(hardware, **options)
    assert isinstance(read, Cluster)
    return read


@pytest.mark.parametrize(
    ("hardware", "nodes", "per_node", "gpu"),
    [
        ("8xA100-80GB", 1, 8, "A100-SXM4-80GB"),
        ("8 x A100-80GB", 1, 8, "A100-SXM4-80GB"),
        ("4x8xH100-80GB", 4, 8, "H100-SXM5-80GB"),
        ("8x1xA100-80GB", 8, 1, "A100-SXM4-80GB"),
        ("8x4090", 1, 8, "RTX4090-24GB"),
        ("2x8x4090", 2, 8, "RTX4090-24GB"),
        ("p4d.24xlarge", 1, 8, "A100-SXM4-40GB"),
        ("2xP4D.24xlarge", 2, 8, "A100-SXM4-40GB"),
        ("nd96amsr_a100_v4", 1, 8, "A100-SXM4-80GB"),
        ("1x72xGB200", 1, 72, "GB200-186GB"),
        ("100000x1xT4", 100_000, 1, "T4-16GB"),
    ],
)
def test_notations(hardware, nodes, per_node, gpu):
    read = cluster(hardware)
    assert (read.num_nodes, read.gpus_per_node, read.gpu.name) == (nodes, per_node, gpu)
    assert read.num_gpus == nodes * per_node
    assert (read.network is None) == (nodes == 1)


def test_a_gpu_without_a_count_keeps_what_its_nodes_have():
    plain = read_cluster("A100-80GB")
    assert isinstance(plain, GpuType)
    assert (plain.one.num_gpus, plain.one.host_memory_bytes, plain.one.nvme) == (1, None, None)
    given = {"intra_node": "pcie4", "network": "25gbe", "host_memory": "512GiB", "nvme": "/scratch:3TB"}
    read = read_cluster("A100-80GB", **given)
    assert isinstance(read, GpuType)
    assert read.one.intra_node.name == "pcie4"
    assert read.one.network is not None
    assert read.one.network.name == "25gbe"
    assert read.one.host_memory_bytes == 512 * GIB
    assert read.one.nvme is not None
    assert read.one.nvme.capacity_bytes == 3 * 10**12


def test_sxm_or_pcie():
    sxm = cluster("8xA100-80GB")
    assert sxm.intra_node.name == "nvlink3"
    assert any("A100-SXM4-80GB" in note for note in sxm.assumptions)
    assert cluster("4xA100-PCIe-80GB").intra_node.name == "pcie4"


def test_an_instance_brings_its_node():
    read = cluster("2xp4d.24xlarge")
    assert read.network is not None
    assert read.network.name == "efa-400"
    assert read.host_memory_bytes == 1152 * GIB
    assert read.nvme is not None
    assert read.nvme.capacity_bytes == 8 * 10**12


def test_options_override_the_instance():
    read = cluster("2xp4d.24xlarge", network="10gbe", host_memory="512GiB", nvme="/scratch:1TB:3GB/s:1GB/s")
    assert read.network is not None
    assert (read.network.name, read.host_memory_bytes) == ("10gbe", 512 * GIB)
    assert read.nvme is not None
    assert (read.nvme.path, read.nvme.read_bytes_per_second, read.nvme.write_bytes_per_second) == (
        "/scratch",
        3e9,
        1e9,
    )


def test_nvme_paths_and_default_rates():
    read = cluster("8xA100-80GB", nvme="C:/fast:3.5TB")
    assert read.nvme is not None
    assert (read.nvme.path, read.nvme.capacity_bytes) == ("C:/fast", 3_500_000_000_000)
    assert any("assumed" in note and "2.5 GB/s read" in note for note in read.assumptions)


def test_a_missing_network_is_assumed_slow_and_said_loudly():
    read = cluster("4x8xH100-80GB")
    assert read.network is not None
    assert (read.network.name, read.network.bandwidth_bytes_per_second) == ("100gbe", 5e9)
    assert any(note.startswith("NO NETWORK WAS GIVEN") for note in read.assumptions)
    assert not any("NO NETWORK" in note for note in cluster("4x8xH100-80GB", network="ib-ndr").assumptions)


def test_on_one_node_the_network_is_the_link_inside_or_unused():
    assert cluster("4xA100-PCIe-80GB", network="nvlink").intra_node.name == "nvlink3-bridge-a100"
    assert cluster("8xA100-80GB", network="pcie4").intra_node.name == "pcie4"
    unused = cluster("8xA100-80GB", network="25gbe")
    assert unused.network is None
    assert any("25gbe is not used" in note for note in unused.assumptions)


@pytest.mark.parametrize(
    ("hardware", "options", "part"),
    [
        ("", {}, "empty"),
        ("0xA100-80GB", {}, "1 to 100000"),
        ("100001x1xA100-80GB", {}, "1 to 100000"),
        ("99999999999999999999x1xA100-80GB", {}, "1 to 100000"),
        ("64xA100-80GB", {}, "like 8x8xA100-80GB"),
        ("2x8xp4d.24xlarge", {}, "write 2xp4d.24xlarge"),
        ("p4d.24xl", {}, "nearest: p4d.24xlarge"),
        ("4x4xA100-80GBx", {}, r"nearest: A100-80GB\b"),
        ("8xA100", {}, "A100-40GB or A100-80GB"),
        ("8xA100-60GB", {}, "not 60 GB"),
        ("missing.yaml", {}, "no such file"),
        ("2x8xA100-80GB", {"network": "nvlink"}, "between nodes"),
        ("8xA100-80GB", {"network": "warp"}, "not a known class"),
        ("A100-80GB", {"network": "warp"}, "not a known class"),
        ("8xA100-80GB", {"network": "nvlink", "intra_node": "pcie4"}, "contradict"),
        ("8xA100-80GB", {"host_memory": "512"}, "no known unit"),
        ("8xA100-80GB", {"host_memory": "5MB"}, "out of range"),
        ("8xA100-80GB", {"nvme": "3TB"}, "PATH:CAPACITY"),
        ("8xA100-80GB", {"nvme": "/x:3TB:fast"}, "like 25Gbps or 3GB/s"),
    ],
)
def test_what_is_not_understood_gets_a_cure(hardware, options, part):
    with pytest.raises(InputError, match=part) as error:
        read_cluster(hardware, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("hardware", "rate", "kind"),
    [
        ("8xA100-80GB", "230GB/s", "nvlink"),
        ("8xA100-80GB", "20GB/s", "pcie"),
        ("4xRTX4090", "230GB/s", "pcie"),
    ],
)
def test_a_rate_that_pcie_cannot_carry_is_the_gpus_own_link(hardware, rate, kind):
    assert cluster(hardware, intra_node=rate).intra_node.kind == kind
