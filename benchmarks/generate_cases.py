"""Seeded facts for ``generate``: every family of the catalogue on hardware of all classes, all options varied.

Each case is a dictionary of options as ``zeroconf.api.load_facts`` takes them, named as on the command line.
"""

from __future__ import annotations

import random
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from zeroconf.api import load_facts
from zeroconf.errors import InputError
from zeroconf.inputs import catalogue
from zeroconf.inputs.cluster import read_cluster
from zeroconf.inputs.model import read_model
from zeroconf.types import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

Options = dict[str, Any]

READERS: Final = ("trainer", "accelerate", "deepspeed")
# one card to many nodes; PCIe, NVLink and other makers' links; Ethernet, InfiniBand, EFA and RoCE between nodes
HARDWARE: Final[tuple[Options, ...]] = (
    {"hardware": "1xRTX4090", "host_memory": "128GiB"},
    {"hardware": "2xRTX3090", "host_memory": "256GiB", "nvme": "/scratch:2TB"},
    {"hardware": "g4dn.12xlarge"},
    {"hardware": "g5.12xlarge"},
    {"hardware": "g6.48xlarge"},
    {"hardware": "g6e.48xlarge"},
    {"hardware": "p3.16xlarge"},
    {"hardware": "2xp3dn.24xlarge"},
    {"hardware": "8xP100-PCIE-16GB", "host_memory": "256GiB"},
    {"hardware": "4xA6000", "host_memory": "512GiB"},
    {"hardware": "1xA100-80GB"},
    {"hardware": "4xA100-40GB", "intra_node": "pcie4"},
    {"hardware": "8xA100-80GB", "host_memory": "1TiB"},
    {"hardware": "p4d.24xlarge"},
    {"hardware": "8xH100-80GB", "nvme": "/scratch:7TB:6GB/s:3GB/s"},
    {"hardware": "1xGH200"},
    {"hardware": "8xMI300X"},
    {"hardware": "8xH200"},
    {"hardware": "8xB200"},
    {"hardware": "8x1xA100-40GB", "network": "1gbe"},
    {"hardware": "4x4xA100-80GB", "network": "10gbe"},
    {"hardware": "2x8xV100-32GB", "network": "ib-edr"},
    {"hardware": "4x8xL40S", "network": "100gbe", "host_memory": "1TiB"},
    {"hardware": "4x8xH100-80GB", "network": "ib-ndr", "nvme": "/scratch:7TB", "host_memory": "2TiB"},
    {"hardware": "8xp4d.24xlarge"},
    {"hardware": "4xp5.48xlarge"},
    {"hardware": "16x8xA100-80GB", "network": "25Gbps"},
    {"hardware": "32x8xH100-80GB", "network": "roce-400"},
)
# GPU bytes per parameter of the whole cluster that are worth a try: between hardly with offload and far too much
_FEWEST_BYTES, _MOST_BYTES = 3, 1000


@cache
def families() -> dict[str, list[str]]:
    """The catalogue's models by architecture."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in catalogue.names():
        found[read_model(name).architecture].append(name)
    return dict(found)


@cache
def _total_bytes(index: int) -> int:
    cluster = read_cluster(**HARDWARE[index])
    if not isinstance(cluster, Cluster):
        msg = f"{HARDWARE[index]} has no count"
        raise TypeError(msg)
    return cluster.num_gpus * cluster.gpu.memory_bytes


def _hardware(rng: random.Random, parameters: int) -> Options:
    suited = [
        options
        for index, options in enumerate(HARDWARE)
        if _FEWEST_BYTES <= _total_bytes(index) / parameters <= _MOST_BYTES
    ]
    return dict(rng.choice(suited or HARDWARE))


def _sometimes(rng: random.Random, share: float, name: str, values: tuple[Any, ...]) -> Options:
    return {name: rng.choice(values)} if rng.random() < share else {}


def _case(rng: random.Random, model: str, reader: str) -> Options:
    case = {"model": model, "reader": reader, **_hardware(rng, read_model(model).num_parameters)}
    case |= _sometimes(rng, 0.5, "seq_len", (256, 512, 1024, 2048))
    case |= _sometimes(rng, 0.3, "precision", ("bf16", "fp16", "fp32"))
    case |= _sometimes(rng, 0.3, "optimizer", ("adam", "lion", "sgd"))
    case |= _sometimes(rng, 0.1, "client_optimizer", (True,))
    case |= _sometimes(rng, 0.25, "lora_rank", (8, 16, 64))
    case |= _sometimes(rng, 0.3, "offload", ("none", "optimizer", "all", "nvme"))
    case |= _sometimes(rng, 0.2, "zero_stage", (0, 1, 2, 3))
    case |= _sometimes(rng, 0.3, "gradient_accumulation", (1, 2, 4, 16))
    case |= _sometimes(rng, 0.2, "micro_batch_size", (1, 2, 4))
    case |= _sometimes(rng, 0.3, "activation_checkpointing", ("none", "full"))
    case |= _sometimes(rng, 0.3, "attention", ("sdpa", "eager"))
    case |= _sometimes(rng, 0.2, "cross_entropy", ("fused", "fused-linear"))
    case |= _sometimes(rng, 0.05, "frozen_params", ("1B",))
    return case


def cases(number: int, seed: int = 0) -> Iterator[Options]:
    """So many cases whose options do not contradict each other: all families and readers in turn."""
    rng = random.Random(seed)
    of_all = list(families().values())
    turn = found = 0
    while found < number:
        reader = READERS[(turn + turn // len(of_all)) % len(READERS)]
        case = _case(rng, rng.choice(of_all[turn % len(of_all)]), reader)
        try:
            load_facts(case)
        except InputError:  # no bf16 on this card, no disk for NVMe: another try of the same family
            continue
        turn, found = turn + 1, found + 1
        yield case


def command_line(options: Options) -> list[str]:
    """The same as words for ``zeroconf generate``."""
    words = []
    for name, value in options.items():
        option = "--for" if name == "reader" else f"--{name.replace('_', '-')}"
        words += [option] if value is True else [option, str(value)]
    return words
