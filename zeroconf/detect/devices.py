"""A machine's GPUs as values, and which of them a program sees."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_GPUS = 64  # what PyTorch counts to (torch/cuda/__init__.py, _parse_visible_devices)
_ORDINAL = re.compile(r"[+-]?\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU as its driver describes it; None is unknown.

    ``memory_bytes`` is the total less what the driver reserves, where it says so, which is what PyTorch reports;
    ``memory_bytes_per_second`` the peak by bus width and clock; ``mig`` whether it is split into instances.
    """

    index: int
    name: str
    uuid: str = ""
    memory_bytes: int | None = None
    memory_bytes_per_second: float | None = None
    bf16: bool | None = None
    mig: bool | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The GPUs of a machine, and what joins them; None is unknown.

    ``nvlinks`` holds the pairs of indexes, the lower first, that reach each other by NVLink (AMD: xGMI);
    ``through_switch`` whether over NVSwitch; ``peer_access`` whether every pair may read the other's memory.
    ``source`` names who was asked; without devices it says why there are none.
    """

    devices: tuple[Device, ...] = ()
    nvlinks: frozenset[tuple[int, int]] | None = None
    through_switch: bool | None = None
    peer_access: bool | None = None
    source: str = ""
    is_amd: bool = False
    hidden: tuple[str, ...] = ()

    def only(self, devices: Iterable[Device]) -> Gpus:
        """The same with some of the devices."""
        chosen = tuple(devices)
        kept = {device.index for device in chosen}
        links = None if self.nvlinks is None else frozenset(pair for pair in self.nvlinks if kept.issuperset(pair))
        return replace(self, devices=chosen, nvlinks=links)

    def joined_by_nvlink(self) -> bool | None:
        """Whether a ring over all devices runs on NVLink only, as NCCL's does where it can."""
        if self.nvlinks is None or len(self.devices) < 2:
            return None
        return has_ring([device.index for device in self.devices], self.nvlinks)


def has_ring(nodes: list[int], pairs: frozenset[tuple[int, int]]) -> bool:
    """Whether the pairs close a ring through all nodes; two nodes need one pair."""
    near = {node: {a + b - node for a, b in pairs if node in (a, b)} for node in nodes}
    if len(nodes) < 3 or all(len(others) == len(nodes) - 1 for others in near.values()):
        return all(near.values())
    # a ring over more than 16 GPUs of one node that are not joined all to all is not known to exist
    return len(nodes) <= 16 and _closes([nodes[0]], near, len(nodes))


def _closes(path: list[int], near: dict[int, set[int]], length: int) -> bool:
    if len(path) == length:
        return path[0] in near[path[-1]]
    return any(_closes([*path, node], near, length) for node in near[path[-1]] if node not in path)


def visible(gpus: Gpus, environment: Mapping[str, str]) -> Gpus:
    """The GPUs that the environment leaves; ``hidden`` names the variables that took some away."""
    names = ["CUDA_VISIBLE_DEVICES"]
    if gpus.is_amd:
        # ROCR's list is applied first; HIP's own goes before CUDA's, which HIP reads too
        names = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES" if "HIP_VISIBLE_DEVICES" in environment else names[0]]
    for name in names:
        if name in environment:
            chosen = chosen_devices(environment[name], gpus.devices)
            if len(chosen) < len(gpus.devices):
                gpus = replace(gpus, hidden=(*gpus.hidden, f"{name}={environment[name]}"))
            gpus = gpus.only(chosen)
    return gpus


def chosen_devices(wanted: str, devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """The devices of a list like CUDA_VISIBLE_DEVICES, read as PyTorch does (_parse_visible_devices).

    Ordinals, of which only the leading digits count, or the beginnings of UUIDs; the first entry that is none ends the
    list, and one that stands twice empties it. A list of MIG instances names no whole GPU.
    """
    items = wanted.split(",")
    if wanted.startswith("GPU-"):
        chosen = [
            _with_uuid(item, devices) for item in itertools.takewhile(lambda item: item.startswith("GPU-"), items)
        ]
    else:
        # -1, and what is no number, end the list
        chosen = list(itertools.takewhile(lambda ordinal: ordinal >= 0, (_ordinal(item.strip()) for item in items)))
    if len(set(chosen)) < len(chosen):
        return ()
    return tuple(devices[ordinal] for ordinal in itertools.takewhile(lambda one: 0 <= one < len(devices), chosen))


def _ordinal(text: str) -> int:
    match = _ORDINAL.match(text)
    return int(match[0]) if match else -1


def _with_uuid(text: str, devices: tuple[Device, ...]) -> int:
    """The position of the only device whose UUID begins so, -1 for none."""
    found = [position for position, device in enumerate(devices) if device.uuid.startswith(text)]
    return found[0] if len(found) == 1 else -1
