"""The GPUs found, as an inventory needs them: equal ones, by the catalogue's name, and the link between them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from zeroconf.detect.findings import Findings, rate_text, size_text
from zeroconf.errors import InputError
from zeroconf.inputs import links
from zeroconf.inputs.gpus import link_generations, read_gpu

if TYPE_CHECKING:
    from zeroconf.detect.devices import Device, Gpus
    from zeroconf.detect.jobs import Job
    from zeroconf.types import Gpu

# the catalogue's figure and the driver's differ by what the driver keeps; more than this is another card
_MEMORY_TOLERANCE = 0.06


def add_gpus(findings: Findings, gpus: Gpus, job: Job) -> None:
    """Number, type and link of the GPUs of this node, into the findings."""
    equal = _equal(findings, gpus)
    if gpus.hidden and gpus.devices:
        findings.notes.append(f"not all GPUs of this node are counted: {' '.join(gpus.hidden)}")
    _add_number(findings, equal, job, _why_none(gpus))
    if not equal.devices:
        kind = f" (Slurm calls it {job.gpu_type})" if job.gpu_type else ""
        findings.lack("gpu", f"no GPU was found to ask for its name{kind}; give it, like A100-80GB")
        return
    card = _add_type(findings, equal)
    if findings.values["gpus_per_node"] > 1:
        _add_link(findings, equal, card)


def _equal(findings: Findings, gpus: Gpus) -> Gpus:
    """The whole GPUs of the most frequent type: NCCL joins no MIG instances, and an inventory has one type."""
    split = [device for device in gpus.devices if device.mig]
    if split:
        names = ", ".join(str(device.index) for device in split)
        findings.notes.append(
            f"GPUs split into MIG instances are left out ({names}): collectives cannot join instances;"
            " nvidia-smi -mig 0 makes them whole"
        )
    whole = [device for device in gpus.devices if not device.mig]
    types = Counter(device.name for device in whole)
    if len(types) < 2:
        return gpus.only(whole)
    ranked = types.most_common()
    name, number = ranked[0]
    others = ", ".join(f"{count} x {other}" for other, count in ranked[1:])
    findings.notes.append(
        f"this node mixes GPU types, and an inventory needs equal ones: it counts the {number} x {name}, not {others};"
        " choose them with CUDA_DEVICE_ORDER=PCI_BUS_ID and CUDA_VISIBLE_DEVICES"
        f"={','.join(str(device.index) for device in whole if device.name == name)}"
    )
    return gpus.only(device for device in whole if device.name == name)


def _why_none(gpus: Gpus) -> str:
    if gpus.devices:
        return "every GPU of this node is split into MIG instances (nvidia-smi -mig 0 makes them whole)"
    if any("=MIG-" in name for name in gpus.hidden):
        return "CUDA_VISIBLE_DEVICES names MIG instances, which collectives cannot join (nvidia-smi -mig 0 undoes them)"
    hidden = f"; {' '.join(gpus.hidden)} hides all of them" if gpus.hidden else ""
    return f"no GPU was found on this machine ({gpus.source}{hidden})"


def _add_number(findings: Findings, gpus: Gpus, job: Job, why_none: str) -> None:
    seen, told = len(gpus.devices), job.gpus_per_node
    if not seen and told:
        findings.know("gpus_per_node", told, f"{job.gpus_source}; {why_none}")
    elif not seen:
        findings.lack("gpus_per_node", why_none)
    elif told and told < seen:
        findings.know("gpus_per_node", told, f"{job.gpus_source}, of {seen} by {gpus.source}")
    else:
        findings.know("gpus_per_node", seen, gpus.source)
        if told and told > seen:
            findings.notes.append(f"{job.gpus_source} gives this node {told} GPUs, {gpus.source} shows {seen}")


def _add_type(findings: Findings, gpus: Gpus) -> Gpu | None:
    """The catalogue's entry, or a description of a card that it does not have."""
    device = gpus.devices[0]
    source = f"{gpus.source}: {device.name}"
    card = _known(device)
    if card is None:
        findings.know("gpu", _described(findings, device), f"{source}, which the catalogue does not have")
    elif device.memory_bytes and abs(device.memory_bytes / card.memory_bytes - 1) > _MEMORY_TOLERANCE:
        memory = size_text(device.memory_bytes)
        findings.know(
            "gpu", {"name": card.name, "memory": memory}, f"{source}, with another memory than the catalogue's"
        )
    else:
        findings.know("gpu", card.name, source)
    return card


def _known(device: Device) -> Gpu | None:
    """By the driver's name; where it leaves the memory out, with it."""
    names = [device.name]
    if device.memory_bytes:
        names.append(f"{device.name} {round(device.memory_bytes / 2**30)}GB")
    for name in names:
        try:
            # drivers write the form of PCIe cards, so that a name without one is the SXM version, as is assumed
            return read_gpu(name)[0]
        except InputError:
            continue
    return None


def _described(findings: Findings, device: Device) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": device.name[:100]}
    cure = "give it from the data sheet"
    if device.memory_bytes:
        entry["memory"] = size_text(device.memory_bytes)
    else:
        findings.lack("gpu.memory", f"the driver does not say; {cure}, like 24GiB")
    key = "fp16_tflops" if device.bf16 is False else "bf16_tflops"
    findings.lack(f"gpu.{key}", f"no driver tells a card's dense peak; {cure}, like 312")
    if device.memory_bytes_per_second:
        entry["memory_bandwidth"] = rate_text(device.memory_bytes_per_second)
    else:
        findings.lack("gpu.memory_bandwidth", f"the driver does not say; {cure}, like 936GB/s")
    return entry


def _add_link(findings: Findings, gpus: Gpus, card: Gpu | None) -> None:
    joined = gpus.joined_by_nvlink()
    generations = link_generations(card) if card else {"nvlink": "", "pcie": ""}
    word = "xGMI" if gpus.is_amd else "NVLink"
    if joined:
        over = " over NVSwitch" if gpus.through_switch else ""
        if generations["nvlink"]:
            findings.know("intra_node", generations["nvlink"], f"{gpus.source}: {word} joins all{over}")
        else:
            findings.lack("intra_node", f"{word} joins the GPUs{over}, of an unknown generation; name it, like nvlink4")
        return
    if joined is None:
        findings.lack("intra_node", "the driver does not say what joins the GPUs; name it, like nvlink or pcie4")
        return
    if gpus.nvlinks:
        pairs = ", ".join(f"{a}-{b}" for a, b in sorted(gpus.nvlinks))
        findings.notes.append(f"{word} joins some GPUs only ({pairs}): collectives over all of them cross PCIe too")
    name = _pcie(gpus)
    if name is None:
        findings.lack("intra_node", f"PCIe of an unknown generation (no {word} ring); name it, like pcie4")
    else:
        findings.know("intra_node", name, f"{gpus.source}: no {word} between all of them")


def _pcie(gpus: Gpus) -> str | None:
    """The class of the slowest card's PCIe link."""
    known = [(device.pcie_generation, device.pcie_width) for device in gpus.devices if device.pcie_generation]
    if not known:
        return None
    generation, width = min((generation or 0, width or 16) for generation, width in known)
    suffix = "-x8" if width <= 8 else "-no-p2p" if gpus.peer_access is False else ""
    classes = set(links.names("node"))
    # a class that measures the lack of peer access is kept for two generations only
    return next((name for name in (f"pcie{generation}{suffix}", f"pcie{generation}") if name in classes), None)
