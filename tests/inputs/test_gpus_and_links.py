from __future__ import annotations

import pytest

from zeroconf.errors import InputError
from zeroconf.inputs import gpus, instances
from zeroconf.inputs.cluster import read_cluster
from zeroconf.inputs.gpus import link_generations, read_gpu
from zeroconf.inputs.links import link, read_intra_node, read_network
from zeroconf.inputs.tables import read_table
from zeroconf.units import GIB


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("RTX4090", "RTX4090-24GB"),
        ("rtx 4090-24GB", "RTX4090-24GB"),
        ("4090", "RTX4090-24GB"),
        ("NVIDIA GeForce RTX 3090", "RTX3090-24GB"),
        ("A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("A100-80GB", "A100-SXM4-80GB"),
        ("a100_80gb", "A100-SXM4-80GB"),
        ("a100-80", "A100-SXM4-80GB"),
        ("A100-80GiB", "A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIE-80GB"),
        ("H100", "H100-SXM5-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("NVIDIA H100 NVL", "H100-NVL-94GB"),
        ("Tesla V100-SXM2-16GB", "V100-SXM2-16GB"),
        ("Tesla T4", "T4-16GB"),
        ("NVIDIA A10G", "A10G-24GB"),
        ("A10", "A10-24GB"),
        ("NVIDIA RTX A6000", "RTX-A6000-48GB"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada-48GB"),
        ("NVIDIA GH200 480GB", "GH200-96GB"),
        ("AMD Instinct MI300X", "MI300X-192GB"),
        ("B200", "B200-SXM-180GB"),
    ],
)
def test_gpu_names_are_read_leniently(written, name):
    assert read_gpu(written)[0].name == name


@pytest.mark.parametrize(
    ("written", "part"),
    [
        ("A100", "A100-40GB or A100-80GB"),
        ("V100", "V100-16GB or V100-32GB"),
        ("A100-60GB", "40 GB, 80 GB, not 60 GB"),
        ("L4-SXM", "no SXM version"),
        ("A10080GB", "nearest: A100-80GB"),
        ("48GB", r"memory size of A40-48GB, RTX-A6000-48GB, RTX-6000-Ada-48GB, L40S-48GB; write"),
        ("49 gb", r"is a memory size; write the GPU's name"),
        ("Foo", "known: P100"),
        ("RTX", "known: P100"),
        ("", "empty"),
    ],
)
def test_doubtful_gpu_names_get_a_cure(written, part):
    with pytest.raises(InputError, match=part):
        read_gpu(written)


@pytest.mark.parametrize(
    ("written", "part"),
    [
        ("trn2.48xlarge", "no accelerator for AWS Neuron"),
        ("16xTrainium1", "no accelerator for AWS Neuron"),
        ("dl1.24xlarge", "inventory file"),
    ],
)
def test_what_deepspeed_or_the_table_cannot_serve_is_refused(written, part):
    with pytest.raises(InputError, match=part):
        read_cluster(written)


def test_figures_that_nobody_measured_are_said_where_they_decide():
    def doubts(*hardware, **options):
        return [
            note for note in read_cluster(*hardware, **options).assumptions if "assumed" in note or "recalled" in note
        ]

    assert doubts("8xA100-SXM4-80GB") == []
    assert doubts("2x8xA100-SXM4-80GB", network="ib-hdr") == []
    (rate,) = doubts("2x8xA100-SXM4-80GB", network="10gbe")
    assert rate.startswith("1.1 GB/s in collectives over 10gbe: assumed, not measured")
    assert len(doubts("1xRTX4090")) == 1
    gpu, within = doubts("2xRTX4090")
    assert gpu.startswith("figures of RTX4090-24GB are partly recalled")
    assert "pcie4-no-p2p" in within


def test_an_instance_may_lack_host_memory():
    cluster = read_cluster("2xcoreweave-hgx-h100")
    assert (cluster.num_gpus, cluster.host_memory_bytes, cluster.network.name) == (16, None, "8xib-ndr")


def test_the_form_that_was_not_written_is_said():
    assert "SXM4" in read_gpu("A100-80GB")[1][0]
    assert read_gpu("A100-SXM4-80GB")[1] == ()


def test_figures_of_an_a100():
    gpu, _ = read_gpu("A100-80GB")
    assert gpu.memory_bytes / GIB == pytest.approx(79.15, abs=0.005)
    assert (gpu.bf16, gpu.half_flops_per_second, gpu.single_flops_per_second) == (True, 312e12, 19.5e12)
    assert gpu.max_efficiency == 0.79
    assert gpu.intra_node.bandwidth_bytes_per_second == 235e9
    assert not read_gpu("V100-32GB")[0].bf16


def test_every_row_of_the_tables_is_sound():
    for row in read_table("gpus"):
        if row["refused"]:
            continue
        gpu, notes = read_gpu(row["name"])
        assert (gpu.name, notes) == (row["name"], ())
        assert 0.9 < gpu.memory_bytes / (int(row["label_gb"]) * 1e9) < 1.1
        assert gpu.half_flops_per_second >= gpu.single_flops_per_second > 1e12
        assert 0.3 <= gpu.max_efficiency <= 1
        assert row["source"]
        assert row["memory_source"]
        for generation in link_generations(gpu).values():
            assert not generation or link(generation).kind in {"nvlink", "pcie"}
    for row in read_table("links"):
        entry = link(row["name"])
        line = float(row["line_gbit_per_second"]) * 1e9 / 8
        assert 0 < entry.low_bandwidth_bytes_per_second <= entry.bandwidth_bytes_per_second <= line
        assert row["source"]
        assert row["confidence"] in {"measured", "verified", "assumed", "recalled"}
    refused = {row["name"] for row in read_table("gpus") if row["refused"]}
    for row in read_table("instances"):
        if row["gpu"] in refused:
            continue
        draft = instances.draft(row, 2)
        assert draft.gpu.name == row["gpu"]
        assert row["source"]
        if draft.network:
            read_network(draft.network)
        if draft.intra_node:
            read_intra_node(draft.intra_node, draft.gpu, link_generations(draft.gpu))


def test_names_in_the_tables_are_unique():
    for names in (gpus.names(), instances.names(), [row["name"] for row in read_table("links")]):
        assert len(names) == len({name.lower() for name in names})


@pytest.mark.parametrize(
    ("text", "kind", "gigabytes"),
    [
        ("1gbe", "ethernet", 0.11),
        ("10GbE", "ethernet", 1.1),
        ("100gbe", "ethernet", 5.0),
        ("roce-200", "rdma", 23.0),
        ("IB-EDR", "rdma", 11.5),
        ("ib_hdr", "rdma", 23.0),
        ("8xib-ndr", "rdma", 368.0),
        ("efa-400", "rdma", 42.5),
        ("25Gbps", "ethernet", 2.6),
        ("10Gb/s", "ethernet", 1.1),
        ("400Gbps", "rdma", 46.0),
    ],
)
def test_networks(text, kind, gigabytes):
    read, _ = read_network(text)
    assert read.kind == kind
    assert read.bandwidth_bytes_per_second == pytest.approx(gigabytes * 1e9)


def test_a_faster_plain_rate_is_never_slower():
    rates = [
        read_network(f"{gigabits}Gbps")[0] for gigabits in (1, 2, 5, 10, 20, 25, 30, 40, 45, 50, 80, 100, 101, 400)
    ]
    bandwidths = [rate.bandwidth_bytes_per_second for rate in rates]
    assert bandwidths == sorted(bandwidths)
    assert all(rate.low_bandwidth_bytes_per_second <= rate.bandwidth_bytes_per_second for rate in rates)


def test_a_rate_says_how_it_is_read():
    assert "TCP" in read_network("25Gbps")[1][0]
    assert "RDMA" in read_network("400Gbps")[1][0]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("nvlink", "joins the GPUs of one node"),
        ("roce-20", "nearest: roce-200"),
        ("0xib-ndr", "impossible number of ports"),
        ("999xib-ndr", "impossible number of ports"),
        ("1bps", "out of range"),
        ("9999999999999Tbps", "out of range"),
        ("", "empty"),
    ],
)
def test_doubtful_networks_get_a_cure(text, part):
    with pytest.raises(InputError, match=part):
        read_network(text)


def test_links_inside_a_node():
    a100, v100, rtx = (read_gpu(name)[0] for name in ("A100-80GB", "V100-32GB", "RTX4090"))
    assert read_intra_node("nvlink", a100, link_generations(a100)).name == "nvlink3"
    assert read_intra_node("nvlink", v100, link_generations(v100)).name == "nvlink2"
    assert read_intra_node("PCIe", a100, link_generations(a100)).name == "pcie4"
    assert read_intra_node("50GB/s", a100, link_generations(a100)).bandwidth_bytes_per_second == 50e9
    with pytest.raises(InputError, match="has no nvlink"):
        read_intra_node("nvlink", rtx, link_generations(rtx))
    with pytest.raises(InputError, match="not a known link between GPUs"):
        read_intra_node("100gbe", a100, link_generations(a100))
