"""No text gives anything but a value or a one-line InputError."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from zeroconf.errors import InputError
from zeroconf.inputs import catalogue, gpus, instances, links
from zeroconf.inputs.cluster import read_cluster
from zeroconf.inputs.model import read_model
from zeroconf.inputs.versions import read_versions
from zeroconf.types import GpuType

WORDS = st.sampled_from(
    [
        *catalogue.names()[::7],
        *gpus.names()[::4],
        *instances.names()[::9],
        *links.names("network")[::6],
        *[
            "8",
            "x",
            "0",
            "-",
            "/",
            ".",
            "GB",
            "80",
            "B",
            "7B",
            "Gbps",
            ":",
            "nvlink",
            "2x",
            " ",
            "\n",
            "é",
            "e9",
            "²",
            "_",
        ],
    ]
)
TEXT = st.text(max_size=40) | st.lists(WORDS, max_size=6).map("".join)


def value_or_one_line(read, *arguments, **options):
    message = "a value"
    try:
        read(*arguments, **options)
    except InputError as error:
        message = str(error)
    assert len(message.splitlines()) == 1


@given(TEXT.filter(lambda text: "/" not in text))
@settings(max_examples=150)
def test_any_model(text):
    value_or_one_line(read_model, text)


@given(TEXT)
@settings(max_examples=150)
def test_any_hardware(text):
    value_or_one_line(read_cluster, text)


@given(TEXT, TEXT, TEXT, TEXT)
@settings(max_examples=100)
def test_any_options(network, intra_node, host_memory, nvme):
    value_or_one_line(read_cluster, "8xA100-80GB", network=network)
    value_or_one_line(read_cluster, "2x8xA100-80GB", network=network)
    value_or_one_line(read_cluster, "8xA100-80GB", intra_node=intra_node)
    value_or_one_line(read_cluster, "8xA100-80GB", host_memory=host_memory)
    value_or_one_line(read_cluster, "8xA100-80GB", nvme=nvme)


@given(TEXT, TEXT)
def test_any_versions(deepspeed, python):
    value_or_one_line(read_versions, deepspeed, None, None)
    value_or_one_line(read_versions, None, None, python)


@given(st.integers(1, 100_000), st.integers(1, 100_000), st.sampled_from(gpus.names()))
def test_notation_round_trip(nodes, per_node, gpu):
    text = f"{nodes}x{per_node}x{gpu}"
    read = read_cluster(text, network="100gbe")
    assert f"{read.num_nodes}x{read.gpus_per_node}x{read.gpu.name}" == text
    alone = read_cluster(gpu)
    assert isinstance(alone, GpuType)
    assert alone.one.gpu == read.gpu


def test_reading_needs_none_of_the_heavy_libraries():
    code = (
        "import sys; from zeroconf.inputs.cluster import read_cluster; from zeroconf.inputs.model import read_model;"
        "read_cluster('2x8xA100-80GB', network='25Gbps', nvme='/x:1TB'); read_model('7B'); read_model('gpt2');"
        "heavy = {'pydantic', 'yaml', 'jsonschema', 'torch', 'transformers', 'socket', 'huggingface_hub'};"
        "print(*heavy & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""
