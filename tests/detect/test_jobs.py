from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import make_machine

from zeroconf.detect.jobs import expand, find_job, hostfile_job, slurm_job
from zeroconf.errors import InputError

GIB = 2**30


@pytest.mark.parametrize(
    ("nodelist", "hosts"),
    [
        ("node1", ["node1"]),
        ("gpu[01-03,07],login", ["gpu01", "gpu02", "gpu03", "gpu07", "login"]),
        ("gpu[8-11]", ["gpu8", "gpu9", "gpu10", "gpu11"]),
        ("r[1-2]n[09-10]", ["r1n09", "r1n10", "r2n09", "r2n10"]),
        ("a[1,3]-ib,b-c.d", ["a1-ib", "a3-ib", "b-c.d"]),
        ("", []),
    ],
)
def test_nodelists(nodelist, hosts):
    assert list(expand(nodelist)) == hosts


@pytest.mark.parametrize("odd", ["gpu[1-", "gpu]1[", "gpu[3-1]", "gpu[a-b]", "gpu[]", ",", "a,,b", "g[1-999999999]",
                                 "g[1-9999][1-9999]", "[[0]", "a[0]]"])  # fmt: skip
def test_what_is_no_nodelist(odd):
    assert expand(odd) is None


@given(st.text(alphabet="ab[]-,019 ", max_size=20))
def test_any_nodelist_is_read_or_not(text):
    hosts = expand(text)
    assert hosts is None or not set("[]") & set("".join(hosts))


def test_an_allocation():
    job = slurm_job(
        {
            "SLURM_JOB_ID": "1",
            "SLURM_JOB_NUM_NODES": "4",
            "SLURM_JOB_NODELIST": "gpu[01-04]",
            "SLURM_GPUS_ON_NODE": "8",
            "SLURM_GPUS_PER_NODE": "a100:8",
            "SLURM_MEM_PER_NODE": "1048576",
            "SLURMD_NODENAME": "gpu01",
        }
    )
    assert (job.num_nodes, job.hosts[-1], job.gpus_per_node, job.gpu_type) == (4, "gpu04", 8, "a100")
    assert (job.memory_bytes, job.memory_source) == (1024 * GIB, "SLURM_MEM_PER_NODE")
    assert (job.source, job.gpus_source, job.notes) == ("SLURM_JOB_NUM_NODES", "SLURM_GPUS_ON_NODE", ())


def test_parts_of_gpus_are_not_counted():
    node = {"SLURM_JOB_ID": "1", "SLURM_NNODES": "1", "SLURMD_NODENAME": "n1"}
    job = slurm_job(node | {"SLURM_GPUS_ON_NODE": "a100_3g.20gb:2"})
    assert job.gpus_per_node is None
    assert any("a100_3g.20gb" in note for note in job.notes)


def test_an_absurd_number_of_nodes_is_none():
    assert slurm_job({"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "99999999"}).num_nodes is None


def test_a_shell_on_none_of_the_jobs_nodes_is_told():
    (note,) = slurm_job({"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "gpu[01-04]"}).notes
    assert "on none of the Slurm job's nodes" in note


@pytest.mark.parametrize(
    ("environment", "field", "value"),
    [
        ({"SLURM_NNODES": "3"}, "num_nodes", 3),
        ({"SLURM_JOB_NODELIST": "n[1-5]"}, "num_nodes", 5),
        ({"SLURM_JOB_NUM_NODES": "many"}, "num_nodes", None),
        ({"SLURM_GPUS_PER_NODE": "4"}, "gpus_per_node", 4),
        ({"SLURM_GPUS_PER_NODE": "h100:4"}, "gpu_type", "h100"),
        ({"SLURM_JOB_GPUS": "0,2-3"}, "gpus_per_node", 3),
        ({"SLURM_GPUS_ON_NODE": "0"}, "gpus_per_node", None),
        ({"SLURM_MEM_PER_NODE": "0"}, "memory_bytes", None),
        ({"SLURM_MEM_PER_CPU": "4096", "SLURM_CPUS_ON_NODE": "64"}, "memory_bytes", 256 * GIB),
        ({"SLURM_MEM_PER_GPU": "131072", "SLURM_GPUS_ON_NODE": "4"}, "memory_bytes", 512 * GIB),
        ({"SLURM_MEM_PER_CPU": "4096"}, "memory_bytes", None),
    ],
)
def test_parts_of_an_allocation(environment, field, value):
    assert getattr(slurm_job(environment), field) == value


def test_contradictions_are_said():
    node = {"SLURMD_NODENAME": "n1"}
    job = slurm_job(node | {"SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_HET_SIZE": "2"})
    assert job.notes == (
        "the Slurm job is heterogeneous: these are the nodes of one component",
        "SLURM_JOB_NODELIST names 2 nodes, SLURM_JOB_NUM_NODES says 3",
    )


def test_a_hostfile(tmp_path):
    path = tmp_path / "hostfile"
    path.write_text("# ours\nnode-1 slots=8\nnode-2 slots=8\n\nnode-3 slots=4\n")
    job = hostfile_job(path)
    assert (job.num_nodes, job.gpus_per_node, job.source) == (2, 8, str(path))
    assert "different slots (node-3 not 8)" in job.notes[0]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("node-1 slots=8\nnode-2 8\n", "line 2 is no entry; write it like: node-1 slots=8"),
        ("a slots=8\na slots=8\n", "line 2 names a a second time"),
        ("# nothing\n", "names a host"),
        (None, "no such file"),
    ],
)
def test_a_hostfile_that_deepspeed_refuses(tmp_path, text, part):
    path = tmp_path / "hostfile"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=re.escape(part)) as error:
        hostfile_job(path)
    assert str(path) in str(error.value)


def test_who_is_asked_first(tmp_path):
    files = {"/job/hostfile": "a slots=2\nb slots=2\n"}
    named = tmp_path / "named"
    named.write_text("c slots=1\n")
    slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "5"}
    torchrun = {"RANK": "0", "WORLD_SIZE": "24", "LOCAL_WORLD_SIZE": "8"}
    assert find_job(make_machine(tmp_path, files)).num_nodes == 2
    assert find_job(make_machine(tmp_path, files, environment=torchrun)).num_nodes == 3
    assert find_job(make_machine(tmp_path, files, environment=slurm | torchrun)).num_nodes == 5
    assert find_job(make_machine(tmp_path, files, environment=slurm), str(named)).num_nodes == 1
    assert find_job(make_machine(tmp_path / "empty")).num_nodes is None
