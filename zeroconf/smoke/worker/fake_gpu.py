"""What real DeepSpeed needs to run on fake tensors: an accelerator, kernels, a disk, and few patches.

``SUBSTITUTIONS`` is the whole list. Each is tried on what the installed releases have, not on their version numbers;
one whose place is missing is left out, and then DeepSpeed itself says what it misses.
"""

from __future__ import annotations

import functools
import importlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from deepspeed.accelerator import abstract_accelerator, cpu_accelerator
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroconf.smoke.worker import gpu_kernels, operators
    from zeroconf.smoke.worker.ledger import DEVICE, Ledger
else:
    import gpu_kernels
    import operators
    from ledger import DEVICE


_TYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "DoubleTensor": torch.double,
    "FloatTensor": torch.float,
    "HalfTensor": torch.half,
    "IntTensor": torch.int,
    "LongTensor": torch.long,
}


class FakeGpu(cpu_accelerator.CPU_Accelerator):  # type: ignore[misc]
    """An accelerator whose one device is the ledger's. Its names are what DeepSpeed puts its tensors on."""

    _torch_pins_host_memory = True

    def __init__(self, gpus_per_node: int) -> None:
        super().__init__()
        # stage 3 keeps sub-groups of ``offload_optimizer.ratio`` on what is called so, if that is not "cpu"
        self._name = DEVICE
        self._gpus_per_node = gpus_per_node

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
        """Those of a node; this process is on one of them."""
        return self._gpus_per_node

    def on_accelerator(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is on the device, not on the host."""
        return str(tensor.device) == DEVICE

    def __getattribute__(self, name: str) -> Any:
        """As ever, but for FloatTensor and the like, which make their tensors on the device."""
        if name in _TYPES:
            return functools.partial(torch.tensor, dtype=_TYPES[name], device=DEVICE)
        return super().__getattribute__(name)

    def available_memory(self, device_index: int | None = None) -> int:  # noqa: ARG002  (DeepSpeed's signature)
        """Without end: the CPU's says what the host has left, and DeepSpeed flattens weights where there is room."""
        return sys.maxsize

    def is_fp16_supported(self) -> bool:
        """As on a GPU."""
        return True


@dataclass(frozen=True, slots=True)
class Substitution:
    """One replacement of what is at ``where``: ``make`` gets that and the ledger.

    ``note`` is what the user reads (empty: it changes nothing that was asked for).
    """

    where: str
    why: str
    make: Callable[[Any, Ledger], Any]
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


def _mesh(plain: Callable[..., Any], device: str, *rest: Any, **named: Any) -> Any:
    with _disable_current_modes():
        return plain(device.partition(":")[0], *rest, **named)


_NO_ADDRESSES = "compiled kernels read addresses, and fake tensors have none"


def _load_kernel(_plain: Any, ledger: Ledger) -> Any:
    return lambda _builder, *_verbose, **_named: operators.Kernel(ledger)


def _whole_vocabulary(_plain: Any, _ledger: Ledger) -> Any:
    return lambda size, _start, _end, group, _device: size * torch.distributed.get_world_size(group)


def _norm_above_zero(plain: Any, _ledger: Ledger) -> Any:
    place = importlib.import_module("deepspeed.runtime.bf16_optimizer")
    if hasattr(place, "is_invalid_grad_norm"):
        return plain
    return lambda *arguments, **named: plain(*arguments, **named).item() or 1.0


SUBSTITUTIONS = (
    Substitution(
        "deepspeed.ops.op_builder.builder:OpBuilder.load",
        _NO_ADDRESSES,
        _load_kernel,
        "compiled optimizers (FusedAdam, DeepSpeedCPUAdam, ...), quantizers and the NVMe swapper's I/O compute nothing",
    ),
    Substitution("deepspeed.ops.op_builder.cpu.no_impl:NotImplementedBuilder.load", _NO_ADDRESSES, _load_kernel),
    Substitution(
        "torch.nn:Module._apply",
        "torch swaps fake parameters for new ones, which their hooks do not allow",
        lambda _plain, _ledger: _move_in_place,
    ),
    Substitution(
        "torch._subclasses.fake_tensor:FakeTensor.data",
        "a fake tensor keeps its device when its data is replaced by a tensor of another",
        lambda _plain, _ledger: property(_plain_data.__get__, _set_data),
    ),
    Substitution(
        "torch:tensor",
        "a tensor that is made from numbers is made on the host",
        lambda plain, _ledger: gpu_kernels.tensor(plain),
    ),
    Substitution(
        "torch.nn.functional:scaled_dot_product_attention",
        "PyTorch picks another kernel on the CPU",
        lambda plain, _ledger: gpu_kernels.attention(plain),
    ),
    Substitution(
        "torch.distributed.device_mesh:init_device_mesh",
        "a mesh is made on a kind of device, without its number, and of ranks that are read from a tensor",
        lambda plain, _ledger: functools.partial(_mesh, plain),
    ),
    Substitution(
        "torch.nn.functional:dropout",
        "PyTorch keeps a factor for each element on the CPU",
        lambda plain, _ledger: gpu_kernels.dropout(plain),
    ),
    Substitution(
        "torch.nn.functional:softmax",
        "PyTorch copies half precision to fp32 first on the CPU",
        lambda plain, _ledger: gpu_kernels.softmax(plain),
    ),
    Substitution(
        "torch:isinf",
        "it compares a copy, of absolute values, which fake tensors keep to themselves",
        lambda plain, _ledger: gpu_kernels.isinf(plain),
    ),
    Substitution(
        "torch.optim.optimizer:_foreach_supported_types",
        "torch's optimizers work on all tensors at once on a GPU, on one after the other on the CPU",
        lambda plain, _ledger: [*plain, FakeTensor],
    ),
    Substitution(
        "torch.optim.optimizer:_get_foreach_kernels_supported_devices",
        "as above",
        lambda _plain, _ledger: lambda: [torch.device(DEVICE).type],
    ),
    Substitution(
        "transformers.masking_utils:find_packed_sequence_indices",
        "whether positions start anew is in their values, and for fake tensors it expects so",
        lambda _plain, _ledger: lambda _positions: None,
    ),
    Substitution(
        "transformers.integrations.moe:_can_use_grouped_mm",
        "it looks at addresses, and fake tensors know the operator in bf16 only; in the others it computes as much",
        lambda _plain, _ledger: lambda _tensors, weights, _offsets: weights.dtype is torch.bfloat16,
    ),
    Substitution(
        "deepspeed.sequence.cross_entropy:_validate_vocab_shard_bounds",
        "it gathers which part of the vocabulary each rank has, and the others do not answer",
        _whole_vocabulary,
    ),
    Substitution(
        "deepspeed.runtime.bf16_optimizer:get_global_norm_of_tensors",
        "values that are read are zero, and BF16_Optimizer asserted that its norm is not before it looked for bad ones",
        _norm_above_zero,
    ),
)


def substitute(ledger: Ledger, gpus_per_node: int) -> None:
    """Puts everything in its place."""
    from deepspeed.accelerator import set_accelerator

    set_accelerator(FakeGpu(gpus_per_node))
    for one in SUBSTITUTIONS:
        module_name, _, path = one.where.partition(":")
        *owners, name = path.split(".")
        try:
            place: Any = importlib.import_module(module_name)
            for owner in owners:
                place = getattr(place, owner)
            plain = getattr(place, name)
        except (ImportError, AttributeError):
            continue
        setattr(place, name, one.make(plain, ledger))
