"""This machine's GPUs: NVIDIA's by NVML, else by nvidia-smi; AMD's by rocm-smi."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.detect.devices import Gpus, visible
from zeroconf.detect.nvml import nvml_gpus
from zeroconf.detect.smi import nvidia_smi_gpus, rocm_gpus

if TYPE_CHECKING:
    from zeroconf.detect.machine import Machine

_MISSING = "nvidia-ml-py is not installed (pip install 'zeroconf-deepspeed[detect]')"


def find_gpus(machine: Machine) -> Gpus:
    """The GPUs that a program started here would see; without any, ``source`` says why."""
    found = Gpus(source=_MISSING) if machine.nvml is None else nvml_gpus(machine.nvml)
    if not found.devices:
        other = nvidia_smi_gpus(machine) or rocm_gpus(machine)
        found = other or Gpus(source=f"{found.source}; neither nvidia-smi nor rocm-smi shows one")
    return visible(found, machine.environment)
