"""The manifest as Kubernetes reads it: fields by its published schema, names by its rules, and what its pods run."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace

import kubernetes_validate
import pytest
import yaml

from zeroconf import api
from zeroconf.errors import InputError

_RFC_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")  # what Kubernetes takes as the name of a Service
_FOUR_NODES = {"model": "llama-3.1-8b", "hardware": "4x8xH100-80GB", "network": "ib-ndr"}
_ONE_NODE = {"model": "llama-3.1-8b", "hardware": "8xA100-80GB"}


def _manifest(options, *, name=None, accelerate=None, scheduler="kubernetes"):
    """The parts by kind, each accepted by the schema of its kind, which knows every field; and all the files.

    Of a JobSet that is the Job in it: its own kind is not among those of Kubernetes.
    """
    facts, _ = api.load_facts(options)
    if name is not None:
        facts = replace(facts, model=replace(facts.model, name=name))
    files = api.generate(facts, launch="k8s.yaml", accelerate=accelerate, scheduler=scheduler).files
    parts = list(yaml.safe_load_all(files["k8s.yaml"]))
    for part in parts:
        if part["kind"] == "JobSet":
            (replicated,) = part["spec"]["replicatedJobs"]
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": part["metadata"], **replicated["template"]}
            kubernetes_validate.validate(job, "1.37", strict=True)
        else:
            kubernetes_validate.validate(part, "1.37", strict=True)
    return {part["kind"]: part for part in parts}, files


def _pod(parts):
    spec = parts["Job"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    return spec, container


def _launched(parts, folder, index, *arguments):
    """The words that the launcher gets in a pod whose environment is the manifest's and the Job controller's."""
    (folder / "mount").mkdir(exist_ok=True)
    for name, text in parts["ConfigMap"]["data"].items():
        (folder / "mount" / name).write_text(text)
    for name in ("torchrun", "accelerate"):
        (folder / name).write_text(f"#!/bin/sh\nprintf '%s\\n' {name} \"$@\"\n")
        (folder / name).chmod(0o755)
    container = _pod(parts)[1]
    own = {one["name"]: one["value"] for one in container.get("env", [])}
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "JOB_COMPLETION_INDEX": str(index), **own}
    command = [word.replace("/etc/zeroconf", f"{folder}/mount") for word in (*container["command"], *container["args"])]
    done = subprocess.run([*command, *arguments], env=environment, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def test_each_pod_is_a_node_that_finds_the_first(tmp_path):
    parts, files = _manifest(_FOUR_NODES)
    job, service, (spec, container) = parts["Job"]["spec"], parts["Service"]["spec"], _pod(parts)
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 4, 4)
    assert (job["backoffLimit"], spec["restartPolicy"]) == (0, "Never")
    name = parts["Job"]["metadata"]["name"]
    # a pod's host name is its Job's name and its number, in the headless service that is its subdomain
    assert (spec["subdomain"], service["clusterIP"]) == (parts["Service"]["metadata"]["name"], "None")
    assert service["selector"] == {"batch.kubernetes.io/job-name": name}
    assert container["env"] == [{"name": "MASTER_ADDR", "value": f"{name}-0.{spec['subdomain']}"}]
    words = _launched(parts, tmp_path, 3, "--output_dir", "my out")
    assert words[:7] == ["torchrun", "--nnodes", "4", "--nproc_per_node", "8", "--node_rank", "3"]
    assert words[7:11] == ["--master_addr", f"{name}-0.{name}", "--master_port", "29500"]
    assert words[words.index("--deepspeed") + 1] == "/etc/zeroconf/ds_config.json"
    assert words[-2:] == ["--output_dir", "my out"]
    assert parts["ConfigMap"]["data"]["ds_config.json"] == files["ds_config.json"]
    assert "rdma/hca" in files["k8s.yaml"]


def test_a_jobset_holds_the_same_job(tmp_path):
    plain, _ = _manifest(_FOUR_NODES)
    parts, files = _manifest(_FOUR_NODES, scheduler="jobset")
    assert list(parts) == ["ConfigMap", "JobSet"]  # its controller makes the service
    assert parts["ConfigMap"] == plain["ConfigMap"]
    jobset = parts["JobSet"]
    assert jobset["apiVersion"] == "jobset.x-k8s.io/v1alpha2"
    assert jobset["spec"]["failurePolicy"] == {"maxRestarts": 0}
    (replicated,) = jobset["spec"]["replicatedJobs"]
    job, own = replicated["template"]["spec"], plain["Job"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    # api/jobset/v1alpha2/jobset_types.go: JobSet, replicated job, number of the job, number of the pod, subdomain
    name, network = jobset["metadata"]["name"], jobset["spec"]["network"]
    assert network == {"enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": name}
    first = f"{name}-{replicated['name']}-0-0.{network['subdomain']}"
    assert container["env"] == [{"name": "MASTER_ADDR", "value": first}]
    container["env"][0]["value"] = f"{name}-0.{name}"
    job["template"]["spec"]["subdomain"] = name
    assert job == own
    path = tmp_path / "k8s.yaml"
    path.write_text(files["k8s.yaml"])
    assert api.lint([path]).findings == ()


def test_accelerate_gets_its_yaml_from_the_same_file(tmp_path):
    parts, _ = _manifest(_FOUR_NODES, accelerate="my acc.yaml")
    words = _launched(parts, tmp_path, 1)
    assert words[:4] == ["accelerate", "launch", "--machine_rank", "1"]
    assert words[words.index("--config_file") + 1] == "/etc/zeroconf/accelerate.yaml"
    settings = yaml.safe_load(parts["ConfigMap"]["data"]["accelerate.yaml"])
    assert settings["deepspeed_config"]["deepspeed_config_file"] == "/etc/zeroconf/ds_config.json"
    assert (settings["num_machines"], settings["num_processes"]) == (4, 32)


def test_the_linter_reads_what_was_written(tmp_path):
    _, files = _manifest(_FOUR_NODES, accelerate="acc.yaml")
    path = tmp_path / "k8s.yaml"
    path.write_text(files["k8s.yaml"])
    report = api.lint([path])
    assert report.findings == ()
    assert [one.finding.rule.code for one in report.suppressed] == ["ZC282"]  # the launch line gives the address
    path.write_text(files["k8s.yaml"].replace("_batch_size 4 ", "_batch_size 2 "))
    assert [one.rule.code for one in api.lint([path]).findings] == ["ZC505"]


def test_one_node_needs_no_service(tmp_path):
    parts, files = _manifest(_ONE_NODE)
    assert list(parts) == ["ConfigMap", "Job"]
    assert _launched(parts, tmp_path, 0)[:4] == ["torchrun", "--standalone", "--nproc_per_node", "8"]
    assert "rdma" not in files["k8s.yaml"]
    assert "#?" not in files["k8s.yaml"]


def test_a_pod_gets_gpus_shared_memory_and_what_offload_needs():
    options = _ONE_NODE | {"model": "llama-3.1-70b", "offload": "nvme", "nvme": '/mnt/my "disk":7TB', "seq_len": 1024}
    parts, files = _manifest(options)
    spec, container = _pod(parts)
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    facts, _ = api.load_facts(options)
    peak = api.generate(facts).decision.chosen.estimate.host.peak_bytes
    asked = int(container["resources"]["requests"]["memory"].removesuffix("Gi"))
    assert 0 <= asked * 2**30 - peak < 2**30
    volumes = {one["name"]: one for one in spec["volumes"]}
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert volumes.keys() == mounts.keys()
    assert (mounts["shared-memory"], volumes["shared-memory"]["emptyDir"]) == ("/dev/shm", {"medium": "Memory"})  # noqa: S108
    assert mounts["nvme"] == volumes["nvme"]["hostPath"]["path"] == '/mnt/my "disk"'
    zero = json.loads(files["ds_config.json"])["zero_optimization"]
    assert zero["offload_optimizer"]["nvme_path"] == mounts["nvme"]


def test_amd_has_its_own_resource():
    parts, _ = _manifest({"model": "llama-3.1-8b", "hardware": "8xMI300X"})
    spec, container = _pod(parts)
    assert container["resources"]["limits"] == {"amd.com/gpu": 8}
    assert spec["tolerations"] == [{"key": "amd.com/gpu", "operator": "Exists"}]


@pytest.mark.parametrize(
    "name",
    ["7B", "Qwen/Qwen2.5-0.5B", "---", "ünï\ncode: [x] {y}", "a" * 300, "\x1b[31m\x85red\u2028", "$name ${x} $$"],
)
def test_any_model_name_makes_names_that_kubernetes_takes(name):
    parts, _ = _manifest(_FOUR_NODES, name=name)
    (label,) = {part["metadata"]["name"] for part in parts.values()}
    assert _RFC_1035.fullmatch(label)
    assert len(f"{label}-31") <= 63
    assert parts == _manifest(_FOUR_NODES, name=name)[0]


def test_a_disk_with_a_line_break_in_its_path_is_refused():
    facts, _ = api.load_facts(_ONE_NODE | {"model": "llama-3.1-70b", "offload": "nvme", "nvme": "/mnt/x:7TB"})
    facts = replace(facts, cluster=replace(facts.cluster, nvme=replace(facts.cluster.nvme, path="/mnt/a\nb")))
    with pytest.raises(InputError, match="line break"):
        api.generate(facts, launch="k8s.yaml", scheduler="kubernetes")


@pytest.mark.parametrize(
    "path",
    [
        "scratch",
        "./mnt",
        "/etc/zeroconf",
        "/etc/zeroconf/",
        "/workspace/nvme",
        "/dev/shm/x",  # noqa: S108
        "/dev",
        "/",
        "/mnt/../etc",
    ],
)
def test_a_disk_that_no_pod_can_mount_beside_the_rest_is_refused(path):
    options = _ONE_NODE | {"model": "llama-3.1-70b", "offload": "nvme", "nvme": f"{path}:7TB"}
    facts, _ = api.load_facts(options)
    with pytest.raises(
        InputError, match=f"^pods cannot mount the NVMe at '{re.escape(path)}'; give --nvme an absolute"
    ):
        api.generate(facts, launch="k8s.yaml", scheduler="kubernetes")
    assert api.generate(facts, launch="job.sh").files


def test_a_disk_with_a_name_like_another_mount_is_mounted():
    options = _ONE_NODE | {"model": "llama-3.1-70b", "offload": "nvme", "nvme": "/workspace2:7TB"}
    mounts = {one["name"]: one["mountPath"] for one in _pod(_manifest(options)[0])[1]["volumeMounts"]}
    assert mounts["nvme"] == "/workspace2"


def test_slurm_for_one_node():
    facts, _ = api.load_facts(_ONE_NODE)
    script = api.generate(facts, launch="job.sh", scheduler="slurm").files["job.sh"]
    assert "#SBATCH --nodes=1\n" in script
    assert "torchrun --standalone" in script
