"""What real DeepSpeed needs to run on fake tensors: an accelerator, kernels, a disk, and few patches.

``SUBSTITUTIONS`` is the whole list. Each is tried on what the installed releases have, not on their version numbers;
one whose place is missing is left out, and then DeepSpeed itself says what it misses.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from deepspeed.accelerator import abstract_accelerator, cpu_accelerator
from torch._subclasses.fake_tensor import FakeTensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroconf.smoke.worker.ledger import DEVICE, Ledger
else:
    from ledger import DEVICE


class FakeGpu(cpu_accelerator.CPU_Accelerator):  # type: ignore[misc]
    """An accelerator whose one device is the ledger's. Its names are what DeepSpeed puts its tensors on."""

    _torch_pins_host_memory = True

    def pin_memory(self, tensor: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        """As on a GPU, not as on the CPU. Older base classes left it to each accelerator."""
        pin = abstract_accelerator.DeepSpeedAccelerator.pin_memory
        if getattr(pin, "__isabstractmethod__", False):
            return tensor.pin_memory()
        return pin(self, tensor, *arguments, **named)

    def _torch_pin_memory(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.pin_memory()

    def _torch_empty_pinned(self, tensor: torch.Tensor, shape: Any) -> torch.Tensor:
        return tensor.new_empty(shape, pin_memory=True)

    def device_name(self, device_index: int | None = None) -> str:  # noqa: ARG002  (DeepSpeed's signature)
        """The device, with or without an index asked for."""
        return DEVICE

    def current_device_name(self) -> str:
        """The device."""
        return DEVICE

    def device_count(self) -> int:
        """One."""
        return 1

    def on_accelerator(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is on the device, not on the host."""
        return str(tensor.device) == DEVICE

    def available_memory(self, device_index: int | None = None) -> int:  # noqa: ARG002  (DeepSpeed's signature)
        """Without end: the CPU's says what the host has left, and DeepSpeed flattens weights where there is room."""
        return sys.maxsize

    def is_fp16_supported(self) -> bool:
        """As on a GPU."""
        return True


class Kernel:
    """Stands for a compiled operator's module: updates in place that need no memory beside their arguments."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_arguments, **_named: None

    def aio_handle(self, *_arguments: Any, **_named: Any) -> Disk:
        """DeepSpeed's asynchronous I/O (csrc/aio)."""
        return Disk(self._ledger)


class Disk:
    """Reads and writes nothing, and says that it did."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._pending = 0

    def async_pread(self, *_arguments: Any) -> int:
        """Takes a request."""
        self._pending += 1
        return 0

    async_pwrite = async_pread

    def wait(self) -> int:
        """The number of requests done."""
        done, self._pending = self._pending, 0
        return done

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is in locked memory."""
        return bool(tensor.is_pinned())

    def new_cpu_locked_tensor(self, num_elements: int, example: torch.Tensor) -> torch.Tensor:
        """A tensor in locked memory (mlock: no rounding)."""
        tensor = torch.empty(num_elements, dtype=example.dtype)
        self._ledger.lock(tensor)
        return tensor

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_arguments, **_named: 0


@dataclass(frozen=True, slots=True)
class Substitution:
    """One replacement: ``note`` is what the user reads (empty: it changes nothing that was asked for)."""

    where: str
    why: str
    make: Callable[[Ledger], Any]
    note: str = ""


def _move_in_place(module: Any, function: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
    for part in module.modules() if recurse else [module]:
        for parameter in part.parameters(recurse=False):
            parameter.data = function(parameter.data)
            if parameter.grad is not None:
                parameter.grad.data = function(parameter.grad.data)
        for name, buffer in part.named_buffers(recurse=False):
            part._buffers[name] = function(buffer)  # noqa: SLF001  (as torch's own _apply does)
    return module


_plain_data = torch._C.TensorBase.data  # noqa: SLF001


def _set_data(tensor: FakeTensor, value: torch.Tensor) -> None:
    _plain_data.__set__(tensor, value)
    if isinstance(value, FakeTensor):
        tensor.fake_device = value.fake_device


def _norm_above_zero(_ledger: Ledger) -> Any:
    place = importlib.import_module("deepspeed.runtime.bf16_optimizer")
    norm = place.get_global_norm_of_tensors
    if hasattr(place, "is_invalid_grad_norm"):
        return norm
    return lambda *arguments, **named: norm(*arguments, **named).item() or 1.0


SUBSTITUTIONS = (
    Substitution(
        "deepspeed.ops.op_builder.builder:OpBuilder.load",
        "compiled kernels read addresses, and fake tensors have none",
        lambda ledger: lambda _builder, *_verbose, **_named: Kernel(ledger),
        "compiled optimizers (FusedAdam, DeepSpeedCPUAdam, ...) and the NVMe swapper's I/O do nothing, in place",
    ),
    Substitution(
        "torch.nn:Module._apply",
        "torch swaps fake parameters for new ones, which their hooks do not allow",
        lambda _ledger: _move_in_place,
    ),
    Substitution(
        "torch._subclasses.fake_tensor:FakeTensor.data",
        "a fake tensor keeps its device when its data is replaced by a tensor of another",
        lambda _ledger: property(_plain_data.__get__, _set_data),
    ),
    Substitution(
        "deepspeed.runtime.bf16_optimizer:get_global_norm_of_tensors",
        "values that are read are zero, and BF16_Optimizer asserted that its norm is not before it looked for bad ones",
        _norm_above_zero,
    ),
)


def substitute(ledger: Ledger) -> None:
    """Puts everything in its place."""
    from deepspeed.accelerator import set_accelerator

    set_accelerator(FakeGpu())
    for one in SUBSTITUTIONS:
        module_name, _, path = one.where.partition(":")
        *owners, name = path.split(".")
        try:
            place: Any = importlib.import_module(module_name)
            for owner in owners:
                place = getattr(place, owner)
            getattr(place, name)
        except (ImportError, AttributeError):
            continue
        setattr(place, name, one.make(ledger))
