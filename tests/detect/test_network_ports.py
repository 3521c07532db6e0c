from __future__ import annotations

import pytest
from machines import interface, make_machine, rdma

from zeroconf.detect.network import network_text, ports
from zeroconf.inputs import links
from zeroconf.inputs.links import read_network

KNOWN = frozenset(links.names("network"))


def found(root, files, more_links=None, **environment):
    return ports(make_machine(root, files, more_links, environment=environment))


def text(root, files, more_links=None, **environment):
    said = network_text(found(root, files, more_links, **environment).fastest, KNOWN)
    if said is not None:
        read_network(said)
    return said


@pytest.mark.parametrize(
    ("rate", "number", "name"),
    [
        ("40 Gb/sec (4X QDR)", 1, "ib-qdr"),
        ("56 Gb/sec (4X FDR)", 1, "ib-fdr"),
        ("100 Gb/sec (4X EDR)", 2, "2xib-edr"),
        ("100 Gb/sec (2X HDR)", 1, "ib-hdr100"),
        ("200 Gb/sec (4X HDR)", 8, "8xib-hdr"),
        ("200 Gb/sec (2X NDR)", 1, "ib-ndr200"),
        ("400 Gb/sec (4X NDR)", 8, "8xib-ndr"),
        ("800 Gb/sec (4X XDR)", 1, "ib-xdr"),
        ("100 Gb/sec", 1, "ib-edr"),
        ("10 Gb/sec (1X QDR)", 1, "10Gbps"),
    ],
)
def test_infiniband(tmp_path, rate, number, name):
    files = {}
    for index in range(number):
        files |= rdma(f"mlx5_{index}", rate)
    assert text(tmp_path, files) == name


def test_ports_that_are_down_or_slower_do_not_count(tmp_path):
    files = rdma("mlx5_0") | rdma("mlx5_1", state="1: DOWN") | rdma("mlx5_2", "100 Gb/sec (4X EDR)")
    assert text(tmp_path, files | rdma("mlx5_3") | interface("eth0", "400000")) == "2xib-hdr"


def test_roce_is_counted_once_with_its_interface(tmp_path):
    files = rdma("mlx5_0", "100 Gb/sec (4X EDR)", layer="Ethernet") | interface("ens1", "100000")
    files["/sys/class/infiniband/mlx5_0/device/net/ens1"] = None
    assert text(tmp_path, files) == "roce-100"
    assert [port.name for port in found(tmp_path, files).ports] == ["mlx5_0:1"]
    assert text(tmp_path, files, NCCL_IB_DISABLE="1") == "100gbe"


def test_efa_is_the_sum_of_its_devices(tmp_path):
    files, more_links = {}, {}
    for index in range(4):
        files |= rdma(f"rdmap{index}", "100 Gb/sec (4X EDR)", layer="Unknown")
        more_links[f"/sys/class/infiniband/rdmap{index}/device/driver"] = "/sys/bus/pci/drivers/efa"
    assert text(tmp_path, files, more_links) == "efa-400"


@pytest.mark.parametrize(
    ("speeds", "name"),
    [
        (["1000"], "1gbe"),
        (["25000"], "25gbe"),
        (["100000"] * 2, "2x100gbe"),
        (["1000", "10000"], "10gbe"),
        (["20000"], "20Gbps"),
    ],
)
def test_ethernet(tmp_path, speeds, name):
    files = {}
    for index, speed in enumerate(speeds):
        files |= interface(f"eth{index}", speed)
    assert text(tmp_path, files) == name


@pytest.mark.parametrize("speed", ["-1", "", "65535", "4294967295", "0", "fast"])
def test_a_speed_that_the_driver_does_not_know(tmp_path, speed):
    files = interface("eth0", speed)
    assert text(tmp_path, files) is None
    assert [port.gigabits for port in found(tmp_path, files).ports] == [None]


def test_what_is_no_port_of_the_node(tmp_path):
    virtual = {f"/sys/class/net/{name}/{key}": value for name in ("lo", "docker0", "veth1", "br0", "tun0")
               for key, value in (("speed", "10000"), ("operstate", "up"))}  # fmt: skip
    files = virtual | interface("eth0", "1000") | interface("eth1", "100000", state="down")
    files |= (
        interface("ib0", "200000") | {"/sys/class/net/ib0/type": "32\n"} | interface("wlan0", "40000", wireless=None)
    )
    files |= interface("vf0", "50000") | {"/sys/class/net/vf0/device/physfn/net/eth0": None}
    assert [port.name for port in found(tmp_path, files).ports] == ["eth0"]


def test_a_bond_counts_once(tmp_path):
    files = interface("eth0") | interface("eth1")
    files |= {f"/sys/class/net/bond0/{key}": value for key, value in (("speed", "50000"), ("operstate", "up"))}
    files["/sys/class/net/bond0/bonding/slaves"] = "eth0 eth1\n"
    more_links = {f"/sys/class/net/eth{index}/master": "/sys/class/net/bond0" for index in (0, 1)}
    assert text(tmp_path, files, more_links) == "50gbe"
    assert [port.name for port in found(tmp_path / "again", files, more_links).ports] == ["bond0"]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("mlx5_0,mlx5_1", ["mlx5_0:1", "mlx5_1:1", "mlx5_10:1"]),
        ("=mlx5_0,mlx5_1", ["mlx5_0:1", "mlx5_1:1"]),
        ("^mlx5_1", ["mlx5_0:1", "mlx5_2:1"]),
        ("^=mlx5_1", ["mlx5_0:1", "mlx5_10:1", "mlx5_2:1"]),
        ("mlx5_2:1", ["mlx5_2:1"]),
        ("", ["mlx5_0:1", "mlx5_1:1", "mlx5_10:1", "mlx5_2:1"]),
    ],
)
def test_nccls_choice_is_followed(tmp_path, wanted, names):
    files = rdma("mlx5_0") | rdma("mlx5_1") | rdma("mlx5_10") | rdma("mlx5_2")
    assert [port.name for port in found(tmp_path, files, NCCL_IB_HCA=wanted).ports] == names


def test_nccls_choice_of_interfaces(tmp_path):
    files = interface("eth0", "100000") | interface("ens1", "10000")
    assert text(tmp_path, files, NCCL_SOCKET_IFNAME="ens") == "10gbe"
    assert found(tmp_path, files, NCCL_SOCKET_IFNAME="ens").chosen_by == "NCCL_SOCKET_IFNAME"
