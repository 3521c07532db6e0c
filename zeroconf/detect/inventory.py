"""The probes' answers joined to an inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.detect import network, storage
from zeroconf.detect.cards import add_gpus
from zeroconf.detect.findings import Findings, latency_text, rate_text, size_text
from zeroconf.detect.gpus import find_gpus
from zeroconf.detect.host import host_memory
from zeroconf.detect.jobs import find_job
from zeroconf.inputs import links

if TYPE_CHECKING:
    from zeroconf.detect.jobs import Job
    from zeroconf.detect.machine import Machine
    from zeroconf.detect.measured import Measured

_ONE_NODE = "only this machine was looked at: no hostfile, Slurm or torchrun names more; set the number of nodes"


def detect(
    machine: Machine,
    *,
    hostfile: str | None = None,
    free_bytes: storage.FreeBytes = storage.free_bytes,
    measured: Measured | None = None,
) -> Findings:
    """The inventory of the job that runs on this machine, or of the machine alone.

    Raises:
        InputError: the hostfile cannot be read.
    """
    job = find_job(machine, hostfile)
    gpus = find_gpus(machine)
    findings = Findings(notes=list(job.notes))
    if job.num_nodes:
        alike = "; the others are taken to be as this one" if job.num_nodes > 1 else ""
        findings.know("nodes", job.num_nodes, f"{job.source}{alike}")
    else:
        findings.values["nodes"] = 1
        findings.lack("nodes", _ONE_NODE)
    add_gpus(findings, gpus, job)
    _add_host_memory(findings, machine, job)
    _add_nvme(findings, storage.storage(machine, free_bytes))
    _add_network(findings, network.ports(machine))
    if measured is not None:
        _add_measured(findings, measured, has_gpus=bool(gpus.devices))
    return findings


def _add_host_memory(findings: Findings, machine: Machine, job: Job) -> None:
    memory = host_memory(machine)
    usable = memory.usable_bytes
    source = "/proc/meminfo" if memory.limit_bytes is None else f"the control group's limit, {memory.limit_path}"
    if memory.limit_bytes is not None and memory.total_bytes:
        source += f" (the machine has {size_text(memory.total_bytes)})"
    if job.memory_bytes and (usable is None or job.memory_bytes < usable):
        usable, source = job.memory_bytes, job.memory_source
    if usable is None:
        findings.lack("host_memory", "/proc/meminfo does not say; give it, like 512GiB")
    elif usable < 2**30:
        findings.lack("host_memory", f"{usable / 2**20:.0f} MiB by {source} is too little to train with")
    else:
        findings.know("host_memory", size_text(usable), source)


def _add_nvme(findings: Findings, found: storage.Storage) -> None:
    if found.mounts:
        best = found.mounts[0]
        findings.know("nvme", {"path": best.path, "capacity": size_text(best.free_bytes)}, storage.describe(best))
        for key in ("read", "write"):
            findings.lack(f"nvme.{key}", "not measured, so that one Gen4 drive is assumed; give it, like 3GB/s")
        if others := ", ".join(mount.path for mount in found.mounts[1:]):
            findings.notes.append(f"other mounts on local NVMe: {others}")
    elif found.unmounted:
        drives = ", ".join(found.unmounted)
        findings.lack("nvme", f"{drives}: nothing on it is mounted where you can write; mount it, or name a path")
    else:
        far = f" ({', '.join(found.remote)} is behind a network)" if found.remote else ""
        findings.sources["nvme"] = f"none: this machine shows no local NVMe with a mount that you can write{far}"


def _add_network(findings: Findings, found: network.Ports) -> None:
    fastest = found.fastest
    text = network.network_text(fastest, frozenset(links.names("network")))
    chosen = f", chosen by {found.chosen_by}" if found.chosen_by else ""
    silent = ", ".join(port.name for port in found.ports if port.gigabits is None)
    if text is not None:
        findings.know("network", text, f"{network.describe(fastest)}{chosen}")
        slower = [port for port in found.ports if port.gigabits and port not in fastest]
        if slower:
            names = ", ".join(f"{port.name} ({port.gigabits:g} Gb/s)" for port in slower)
            findings.notes.append(f"ports that the network does not count: {names}")
        if silent:
            findings.notes.append(f"ports that do not say their rate: {silent}")
    elif silent:
        findings.lack("network", f"{silent} does not say its rate; name it, like 25gbe, or measure: --measure-network")
    else:
        findings.lack("network", f"no port is up{chosen}; name what will join the nodes, like 25gbe or ib-ndr")


def _add_measured(findings: Findings, measured: Measured, *, has_gpus: bool) -> None:
    rate, latency = rate_text(measured.bytes_per_second), latency_text(measured.latency_seconds)
    source = f"{measured.source}, {latency} a hop"
    if measured.num_nodes > 1:
        line = findings.values.get("network")
        findings.know("network", {"bandwidth": rate, "measured": True, "latency": latency}, source)
        if line:
            findings.notes.append(f"the ports' line rate: {line}")
    elif measured.backend == "nccl":
        findings.know("intra_node", rate, source)
    else:
        why = "this PyTorch does not see them" if has_gpus else "there are none"
        findings.notes.append(f"{source}: {rate}, between processes, not between GPUs ({why})")
