from __future__ import annotations

import json

import jsonschema
import pytest
import yaml

from zeroconf.errors import InputError
from zeroconf.inputs.cluster import read_cluster
from zeroconf.inputs.inventory import json_schema
from zeroconf.types import Cluster
from zeroconf.units import GIB

FULL = """
nodes: 2
gpus_per_node: 4
gpu:
  name: Falcon-9
  memory: 60GiB
  bf16_tflops: 400
  memory_bandwidth: 2TB/s
host_memory: 512GiB
nvme: {path: /scratch, capacity: 3.5TB, read: 6GB/s, write: 2GB/s}
intra_node: pcie5
network: {bandwidth: 25Gbps, latency: 5us}
"""


def write(folder, text):
    path = folder / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_full_inventory(tmp_path):
    read = read_cluster(write(tmp_path, FULL))
    assert isinstance(read, Cluster)
    assert (read.num_nodes, read.gpus_per_node, read.gpu.name, read.gpu.memory_bytes) == (2, 4, "Falcon-9", 60 * GIB)
    assert (read.gpu.half_flops_per_second, read.gpu.bf16) == (400e12, True)
    assert read.network is not None
    assert (read.network.bandwidth_bytes_per_second, read.network.latency_seconds) == pytest.approx((2.6e9, 5e-6))
    assert read.nvme is not None
    assert (read.nvme.path, read.nvme.write_bytes_per_second) == ("/scratch", 2e9)
    assert (read.intra_node.name, read.host_memory_bytes) == ("pcie5", 512 * GIB)
    assert any("Falcon-9" in note for note in read.assumptions)


def test_a_known_gpu_by_name_or_with_a_figure_replaced(tmp_path):
    plain = read_cluster(write(tmp_path, "gpus_per_node: 8\ngpu: A100-80GB\n"))
    changed = read_cluster(write(tmp_path, "gpus_per_node: 8\ngpu: {name: A100-80GB, memory: 79GiB}\n"))
    assert isinstance(plain, Cluster)
    assert isinstance(changed, Cluster)
    assert (plain.gpu.name, plain.num_nodes) == ("A100-SXM4-80GB", 1)
    assert changed.gpu.memory_bytes == 79 * GIB
    assert changed.gpu.half_flops_per_second == plain.gpu.half_flops_per_second


def test_the_command_line_overrides_the_inventory(tmp_path):
    read = read_cluster(write(tmp_path, FULL), network="ib-hdr", host_memory="1TiB", intra_node="pcie4")
    assert isinstance(read, Cluster)
    assert read.network is not None
    assert (read.network.name, read.host_memory_bytes, read.intra_node.name) == ("ib-hdr", 1024 * GIB, "pcie4")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("gpus_per_node: 8\n", "'gpu' is missing; write gpu: A100-80GB"),
        ("gpus: 8\ngpu: A100-80GB\n", "'gpus' is not known .it is called gpus_per_node"),
        ("gpus_per_node: 8\ngpu: A100-80GB\nram: 1TB\n", "'ram' is not known .it is called host_memory"),
        ("gpus_per_node: 8\ngpu: A100-80GB\nhost_mem: 3GiB\n", "nearest: host_memory"),
        ("gpus_per_node: yes\ngpu: A100-80GB\n", "'gpus_per_node'.*not True"),
        ("gpus_per_node: '8'\ngpu: A100-80GB\n", "'gpus_per_node'"),
        ("gpus_per_node: 0\ngpu: A100-80GB\n", "greater than or equal to 1"),
        ("gpus_per_node: 100001\ngpu: A100-80GB\n", "less than or equal to 100000"),
        ("gpus_per_node: 8\ngpu: {name: A100-80GB, mem: 3}\n", "'mem' is not known"),
        ("gpus_per_node: 8\ngpu: {name: Foo}\n", "give memory"),
        ("gpus_per_node: 8\ngpu: A100\n", "A100-40GB or A100-80GB"),
        ("gpus_per_node: 8\ngpu: A100-80GB\nhost_memory: 512\n", "'host_memory'"),
        ("gpus_per_node: 8\ngpu: A100-80GB\nhost_memory: '512'\n", "no known unit"),
        ("gpus_per_node: 8\ngpu: {name: A100-80GB, bf16_tflops: .nan}\n", "bf16_tflops"),
        ("nodes: 2\ngpus_per_node: 8\ngpu: A100-80GB\nnetwork: {bandwidth: 25Gbps, latency: soon}\n", "like 5us"),
        ("gpus_per_node: [8\n", ":2:1: not YAML"),
        ("- 8\n", "a mapping"),
        ("", "a mapping"),
        ("a: &a [*a]\n", "not known|not YAML|missing"),
        ("[" * 1000, "not YAML"),
        ("gpus_per_node: !!python/object/apply:os.getcwd []\n", "not YAML"),
    ],
)
def test_mistakes_are_one_line(tmp_path, text, part):
    with pytest.raises(InputError, match=part) as error:
        read_cluster(write(tmp_path, text))
    assert "\n" not in str(error.value)
    assert "cluster.yaml" in str(error.value)


def test_the_published_schema_accepts_and_refuses_the_same(tmp_path):
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.check_schema(json_schema())
    assert validator.is_valid(yaml.safe_load(FULL))
    assert not validator.is_valid({"gpus_per_node": 8, "gpu": "A100-80GB", "host_mem": "3GiB"})
    assert not validator.is_valid({"gpus_per_node": 0, "gpu": "A100-80GB"})
    assert not validator.is_valid({"gpu": "A100-80GB"})
    path = tmp_path / "inventory.json"
    path.write_text(json.dumps({"gpus_per_node": 8, "gpu": "A100-80GB"}), encoding="utf-8")
    assert isinstance(read_cluster(str(path)), Cluster)
