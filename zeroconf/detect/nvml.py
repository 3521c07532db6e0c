"""NVIDIA's GPUs through NVML (nvidia-ml-py)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from zeroconf.detect.devices import MOST_GPUS, Device, Gpus
from zeroconf.detect.machine import printable

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_LINKS = 36  # NVML_NVLINK_MAX_LINKS of the newest release; an older one refuses the numbers beyond its own
# pynvml's NVML_P2P_CAPS_INDEX_READ is a tuple by a slip, so that the numbers of nvml.h stand here
_P2P_READ, _P2P_NVLINK, _P2P_OK = 0, 2, 0
_BF16_SINCE = (8, 0)  # Ampere


class _Nvml:
    """NVML's functions by name; what the driver does not answer is None."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.errors = (getattr(module, "NVMLError", OSError), AttributeError, OSError, TypeError, ValueError)

    def ask(self, name: str, *arguments: Any) -> Any:
        try:
            call: Callable[..., Any] = getattr(self.module, name)
            return call(*arguments)
        except self.errors:
            return None

    def count(self, name: str, *arguments: Any) -> int | None:
        value = self.ask(name, *arguments)
        return value if isinstance(value, int) and value > 0 else None

    def words(self, name: str, *arguments: Any) -> str:
        """Text; releases before 11.5 answer in bytes."""
        value = self.ask(name, *arguments)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        return printable(value) if isinstance(value, str) else ""


def nvml_gpus(module: Any) -> Gpus:
    """Every GPU that the driver shows; without any, ``source`` says why."""
    nvml = _Nvml(module)
    try:
        module.nvmlInit()
    except nvml.errors as error:
        return Gpus(source=f"NVML: {printable(str(error)) or 'it does not start'}")
    try:
        return _gpus(nvml)
    finally:
        nvml.ask("nvmlShutdown")


def _gpus(nvml: _Nvml) -> Gpus:
    number = min(nvml.count("nvmlDeviceGetCount") or 0, MOST_GPUS)
    handles = {index: nvml.ask("nvmlDeviceGetHandleByIndex", index) for index in range(number)}
    handles = {index: handle for index, handle in handles.items() if handle is not None}
    if not handles:
        return Gpus(source="NVML: the driver shows no GPU")
    driver = nvml.words("nvmlSystemGetDriverVersion")
    pairs = list(itertools.combinations(handles, 2))
    linked = {pair: _p2p(nvml, handles, pair, _P2P_NVLINK) for pair in pairs}
    readable = [_p2p(nvml, handles, pair, _P2P_READ) for pair in pairs]
    return Gpus(
        devices=tuple(_device(nvml, index, handle) for index, handle in handles.items()),
        nvlinks=None if None in linked.values() else frozenset(pair for pair, joined in linked.items() if joined),
        through_switch=_through_switch(nvml, next(iter(handles.values()))),
        peer_access=None if None in readable or not readable else all(readable),
        source=f"NVML (driver {driver})" if driver else "NVML",
    )


def _p2p(nvml: _Nvml, handles: dict[int, Any], pair: tuple[int, int], what: int) -> bool | None:
    status = nvml.ask("nvmlDeviceGetP2PStatus", handles[pair[0]], handles[pair[1]], what)
    return None if status is None else status == _P2P_OK


def _through_switch(nvml: _Nvml, handle: Any) -> bool | None:
    """Whether the active NVLinks of a GPU lead to a switch; None when there are none or nobody says."""
    active = [link for link in range(_MOST_LINKS) if nvml.ask("nvmlDeviceGetNvLinkState", handle, link) == 1]
    kinds = [nvml.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) for link in active]
    if not kinds or None in kinds:
        return None
    return any(kind == getattr(nvml.module, "NVML_NVLINK_DEVICE_TYPE_SWITCH", 2) for kind in kinds)


def _device(nvml: _Nvml, index: int, handle: Any) -> Device:
    capability = nvml.ask("nvmlDeviceGetCudaComputeCapability", handle)
    mig = nvml.ask("nvmlDeviceGetMigMode", handle)
    return Device(
        index=index,
        name=nvml.words("nvmlDeviceGetName", handle) or "unnamed GPU",
        uuid=nvml.words("nvmlDeviceGetUUID", handle),
        memory_bytes=_memory_bytes(nvml, handle),
        memory_bytes_per_second=_memory_rate(nvml, handle),
        bf16=tuple(capability) >= _BF16_SINCE if isinstance(capability, (list, tuple)) else None,
        # cards without MIG answer "not supported"
        mig=bool(mig[0]) if isinstance(mig, (list, tuple)) and mig else False,
        pcie_generation=nvml.count("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        pcie_width=nvml.count("nvmlDeviceGetMaxPcieLinkWidth", handle),
    )


def _memory_bytes(nvml: _Nvml, handle: Any) -> int | None:
    """The second version's total less what the driver reserves; the first one's total counts that too."""
    second = nvml.ask("nvmlDeviceGetMemoryInfo", handle, getattr(nvml.module, "nvmlMemory_v2", None))
    told = second if hasattr(second, "reserved") else nvml.ask("nvmlDeviceGetMemoryInfo", handle)
    total, reserved = getattr(told, "total", None), getattr(told, "reserved", 0)
    if not isinstance(total, int) or not isinstance(reserved, int) or total <= reserved:
        return None
    return total - reserved


def _memory_rate(nvml: _Nvml, handle: Any) -> float | None:
    """Bus width times the double of the clock: two transfers a cycle, 1555 GB/s for an A100-40GB."""
    width = nvml.count("nvmlDeviceGetMemoryBusWidth", handle)
    megahertz = nvml.count("nvmlDeviceGetMaxClockInfo", handle, getattr(nvml.module, "NVML_CLOCK_MEM", 2))
    return width / 8 * megahertz * 1e6 * 2 if width and megahertz else None
