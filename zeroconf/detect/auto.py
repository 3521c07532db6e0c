"""``--hardware auto``: the machine or job that this runs on, as the other notations are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroconf.errors import InputError, UnavailableError
from zeroconf.inputs.cluster import read_cluster

if TYPE_CHECKING:
    from zeroconf.detect.machine import Machine
    from zeroconf.types import Cluster, GpuType

AUTO = "auto"


def read_hardware(hardware: str, **options: Any) -> Cluster | GpuType:
    """As ``inputs.cluster.read_cluster``, which also reads the options, with ``auto`` for this machine.

    Raises:
        UnavailableError: ``auto`` where no GPU is found, or one that the catalogue does not have.
        InputError: as there.
    """
    if hardware.strip().lower() != AUTO:
        return read_cluster(hardware, **options)
    from zeroconf.detect.machine import this_machine  # noqa: PLC0415  (most calls name their hardware)

    try:
        return detected_cluster(this_machine(), **options)
    except InputError as error:
        # options apart, what is wrong is this machine's
        raise UnavailableError(str(error)) from error


def detected_cluster(machine: Machine, **options: Any) -> Cluster | GpuType:
    """The cluster that the probes find.

    Raises:
        InputError: no GPU is found, or an option is not understood.
    """
    from zeroconf.detect.inventory import detect  # noqa: PLC0415  (as above)
    from zeroconf.inputs.described import draft_of  # noqa: PLC0415  (pydantic)

    findings = detect(machine)
    inventory = findings.inventory()
    if missing := [key for key in findings.unknown if key.startswith("gpu.")]:
        msg = (
            f"the catalogue has no {findings.values['gpu']['name']}; write zeroconf detect -o cluster.yaml,"
            f" give {' and '.join(missing)} there, and name it: --hardware cluster.yaml"
        )
        raise InputError(msg)
    draft = draft_of(inventory, "")
    name = f"{draft.gpus_per_node}x{draft.gpu.name}"
    whole = name if draft.num_nodes == 1 else f"{draft.num_nodes}x{name}"
    told = (f"{key}: {source}" for key, source in findings.sources.items() if key in findings.values)
    needless = {"network"} if draft.num_nodes == 1 else set()
    given = {key for key, value in options.items() if value}
    unknown = (f"{key}: {why}" for key, why in findings.unknown.items() if key not in given | needless)
    draft = draft._replace(
        name=whole,
        node_name=name,
        assumptions=(*draft.assumptions, *findings.notes, *told, *unknown),
    )
    return read_cluster(draft, **options)
