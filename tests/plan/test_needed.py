"""A GPU type without a count: how many are needed, in nodes that have what was given."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zeroconf import api

OFFLOADED = {"model": "13B", "hardware": "A100-80GB", "offload": "all"}


def needed(**options):
    return {entry.stage: entry.num_gpus for entry in api.gpus_needed(api.load_facts(options)[0])}


def counted(number, **options):
    return api.decide(api.load_facts(options | {"hardware": f"{number}x{options['hardware']}"})[0]).chosen


def test_each_number_is_tried_in_nodes_that_have_the_host_memory_that_was_given():
    assert needed(**OFFLOADED) == {3: 2}
    assert needed(**OFFLOADED, host_memory="300GiB") == {3: 1}
    assert needed(model="qwen2.5-72b", hardware="H200", offload="all", host_memory="2TiB") == {3: 1}
    little = {"model": "13B", "hardware": "A100-80GB", "offload": "optimizer", "host_memory": "64GiB"}
    assert counted(1, **little) is None
    assert counted(2, **little) is None
    assert needed(**little)[1] is None
    assert needed(**little)[3] > 8


def test_host_memory_counts_without_offload_too():
    """Ranks load the whole model before it is partitioned."""
    assert needed(model="13B", hardware="A100-80GB", zero_stage=2) == {2: 8}
    assert needed(model="13B", hardware="A100-80GB", zero_stage=2, host_memory="64GiB") == {2: None}


def test_a_disk_that_was_given_is_used():
    asked = {"model": "13B", "hardware": "A100-80GB", "offload": "nvme"}
    assert needed(**asked, nvme="/s:3TB") == {3: 1}
    assert needed(**asked, nvme="/s:100GB")[3] > 1


def test_what_a_node_has_may_stand_in_the_project_file(run):
    Path("zeroconf.toml").write_text('host-memory = "300GiB"\nnetwork = "10gbe"\n', encoding="utf-8")
    asked = ("generate", "--model", "13B", "--hardware", "A100-80GB", "--offload", "all")
    code, out, _ = run(*asked, "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["stages"][0]["num_gpus"] == 1
    cluster = answer["facts"]["cluster"]
    assert (cluster["num_gpus"], cluster["host_memory_bytes"], cluster["network"]["name"]) == (1, 300 * 2**30, "10gbe")
    text = run(*asked)[1]
    assert "In nodes of 8 over 10gbe, all: CPU.\nA node has 300.0 GiB of host memory" in text
    Path("zeroconf.toml").unlink()
    assert "Up to 256 GiB of host memory for each GPU is taken to be there" in run(*asked)[1]


OPTIONS = st.fixed_dictionaries(
    {
        "--model": st.sampled_from(["1.3B", "13B", "qwen2.5-72b", "gpt2-xl"]),
        "--hardware": st.sampled_from(["A100-80GB", "T4", "H200", "RTX4090"]),
        "--nvme": st.sampled_from(["/s:200GB", "/s:3TB"]),
    },
    optional={
        "--host-memory": st.sampled_from(["32GiB", "64GiB", "300GiB", "2TiB"]),
        "--offload": st.sampled_from(["none", "optimizer", "all", "nvme"]),
        "--network": st.sampled_from(["10gbe", "8xib-hdr"]),
        "--seq-len": st.sampled_from(["512", "1000"]),
        "--micro-batch-size": st.sampled_from(["1", "3"]),
        "--gradient-accumulation": st.sampled_from(["1", "5"]),
        "--headroom": st.sampled_from(["0.05", "0.4"]),
        "--lora-rank": st.just("16"),
    },
)


@settings(max_examples=15, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OPTIONS)
def test_the_command_that_is_printed_gives_a_comfortable_plan(run, options):
    code, out, err = run("generate", *(word for option in options.items() for word in option))
    (command,) = [shlex.split(line)[1:] for line in out.splitlines() if line.startswith("  zeroconf generate ")]
    if code == 3:
        assert "No number is enough at any stage" in out
        return
    assert code == 0, err
    code, out, err = run(*command, "--json")
    assert code == 0, err
    assert json.loads(out)["verdict"] == "comfortable"
