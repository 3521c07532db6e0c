"""A plan as a Kubernetes manifest: an Indexed Job, of which each node runs a pod, with its files in a ConfigMap.

An Indexed Job whose pods carry the label by which the Service finds them, ``batch.kubernetes.io/job-name``, is in every
cluster since Kubernetes 1.27. A JobSet of one such Job (kubernetes-sigs/jobset, ``v1alpha2``) needs its controller,
which makes the service. Kubeflow's PyTorchJob is legacy; its successor TrainJob, ``v1alpha1``, rests on JobSet.
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import PurePosixPath
from string import Template
from typing import TYPE_CHECKING, Final

from zeroconf.emit.launch import printable, summary
from zeroconf.errors import InputError
from zeroconf.resources import data_path
from zeroconf.units import GIB, ceil_div, release_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zeroconf.types import Estimate, Facts, Plan

FOLDER: Final = "/etc/zeroconf"  # where the pods find the ConfigMap's files
DS_CONFIG: Final = f"{FOLDER}/ds_config.json"
ACCELERATE: Final = f"{FOLDER}/accelerate.yaml"
_WORKSPACE: Final = "/workspace"
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108
_REPLICATED: Final = "node"
_MOST_LETTERS = 40  # a host name's label has 63, and the Job adds numbers


def kubernetes_manifest(
    facts: Facts,
    plan: Plan,
    cost: Estimate,
    *,
    launch: str,
    ds_config: str,
    accelerate: str | None,
    as_jobset: bool = False,
    script: str = "train.py",
) -> str:
    """ConfigMap, Service and Job, or ConfigMap and JobSet, for one ``kubectl apply``.

    ``launch`` is the script that every pod runs; it and the configurations are the files' texts, which name each other
    as ``DS_CONFIG`` and ``ACCELERATE``.

    Raises:
        InputError: the path of the NVMe is none that the pods can mount.
    """
    cluster, versions = facts.cluster, facts.versions
    nvme = cluster.nvme if plan.offload == "nvme" else None
    memory_gib = ceil_div(cost.host.peak_bytes, GIB)
    releases = {"DeepSpeed": versions.deepspeed, "Accelerate": versions.accelerate}
    several, name = cluster.num_nodes > 1, _label(facts.model.name)
    job = f"{name}-{_REPLICATED}-0" if as_jobset else name
    is_there = {
        "accelerate": accelerate is not None,
        "memory": memory_gib > 0,
        "nodes": several,
        "service": several and not as_jobset,
        "job": not as_jobset,
        "jobset": as_jobset,
        "nvme": nvme is not None,
        "rdma": cluster.network is not None and cluster.network.kind == "rdma",
    }
    values = {
        "summary": summary(facts, plan),
        "name": name,
        "kind": "JobSet" if as_jobset else "Job",
        "job": job,
        "first_pod": f"{job}-0",
        "replicated": _REPLICATED,
        "num_nodes": cluster.num_nodes,
        "gpus_per_node": cluster.gpus_per_node,
        "gpu": cluster.gpu.name,
        "gpu_resource": "amd.com/gpu" if cluster.gpu.architecture.startswith("CDNA") else "nvidia.com/gpu",
        "network": cluster.network.name if cluster.network else "",
        "memory_gib": memory_gib,
        "nvme": _quoted(_mountable(nvme.path)) if nvme else "",
        "libraries": ", ".join(f"{library} {release_text(release)}" for library, release in releases.items()),
        "folder": FOLDER,
        "workspace": _WORKSPACE,
        "shared_memory": _SHARED_MEMORY,
        "script": script,
    }
    spec = _filled("kubernetes-job.yaml", is_there, values)
    values |= {"launch": _block(launch), "ds_config": _block(ds_config), "accelerate": _block(accelerate or "")}
    values |= {"job_spec": _indented(spec, 2), "jobset_spec": _indented(spec, 10)}
    return _filled("kubernetes.yaml", is_there, values)


def _filled(template: str, is_there: Mapping[str, bool], values: Mapping[str, object]) -> str:
    text = data_path(f"templates/launch/{template}").read_text(encoding="utf-8")
    return Template("".join(_kept(text, is_there))).substitute(values)


def _kept(template: str, is_there: Mapping[str, bool]) -> Iterator[str]:
    """The lines of a template without those that are marked ``#? NAME`` for what is not there."""
    for line in template.splitlines():
        text, _, condition = line.partition("  #? ")
        if not condition or is_there[condition]:
            yield f"{text}\n"


def _block(text: str) -> str:
    """The lines of a literal block of the ConfigMap."""
    return _indented(text, 4)


def _indented(text: str, depth: int) -> str:
    return textwrap.indent(text.rstrip("\n"), " " * depth)


def _label(name: str) -> str:
    """A name that Kubernetes takes for Services as well as Jobs: RFC 1035, lower case, a letter first."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    label = label if label[:1].isalpha() else f"train-{label}"
    return label[:_MOST_LETTERS].rstrip("-")


def _mountable(path: str) -> str:
    """The path of a node's disk, which no other mount of the pods is in or around."""
    own, mounts = PurePosixPath(path), (FOLDER, _WORKSPACE, _SHARED_MEMORY)
    overlaps = any(own.is_relative_to(mount) or PurePosixPath(mount).is_relative_to(own) for mount in mounts)
    if not own.is_absolute() or ".." in own.parts or overlaps:
        msg = f"pods cannot mount the NVMe at {path!r}; give --nvme an absolute path apart from {', '.join(mounts)}"
        raise InputError(msg)
    return path


def _quoted(path: str) -> str:
    return json.dumps(printable(path), ensure_ascii=False)
