"""Names what a tensor of a dry run is: parameters, gradients, optimizer states, buffers, activations, ...

What lives on after initialisation or a step is known by who holds it (``held``); what comes and goes, by the phase
it was made in, the DeepSpeed function that asked for it, and its shape (``Parts``). The names are those of
zeroconf's estimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

# files of deepspeed/runtime/zero that gather and free partitioned parameters
_GATHERING = ("partition_parameters.py", "partitioned_param_coordinator.py", "parameter_offload.py")
_OPTIMIZERS = ("stage_1_and_2.py", "stage3.py", "_optimizer.py")
# functions of these files that only call the model, or the optimizer of the user
_CALLERS = {"backward", "forward", "_start_of_forward_hook", "_end_of_forward_hook", "__call__", "wrapper"}
# functions of engine.py that reduce gradients at stage 0
_REDUCING = {"allreduce_bucket", "allreduce_and_copy", "allreduce_no_retain"}
_FAKE_GPU = "fake_gpu.py"
# functions whose tensors stay until the step
_KEEPING = {
    "copy_grads_in_partition": "gradients",
    "independent_gradient_partition_epilogue": "gradients",
    "_build_compact_grad_partition_buffer": "gradients",
    "get_flat_partition": "gradients",
    "setup_buckets": "buffers",
}
# attributes of DeepSpeed's optimizers, by what they hold
_HOLDERS = {
    "parameters": ("bit16_groups_flat", "fp16_groups_flat", "lp_param_buffer", "fp16_partitioned_groups_flat"),
    "optimizer_states": (
        "single_partition_of_fp32_groups",
        "fp32_partitioned_groups_flat",
        "fp32_groups_flat",
        "fp32_groups_flat_partition",
        "fp32_groups",
    ),
    "gradients": (
        "grad_partitions_flat_buffer",
        "averaged_gradients",
        "all_grad_tensors",
        "fp32_groups_gradients_flat",
        "fp32_groups_gradient_flat_partition",
    ),
}


class Parts:
    """Classifies new tensors; ``phase`` and ``vocab_size`` are kept current by who runs the phases."""

    def __init__(self) -> None:
        self.phase = "build"
        self.vocab_size = 0
        self._by_code: dict[CodeType, str] = {}

    def classify(self, tensor: torch.Tensor, frame: FrameType) -> str:
        """The part of a tensor that was just made by the code of a frame."""
        if self.phase == "build":
            return "parameters"
        if part := self._asked_by(frame):
            return "temporaries" if self.phase == "init" and part != "parameters" else part
        if self.phase in {"init", "step"}:
            return "temporaries"
        return "logits" if tensor.dim() > 1 and tensor.shape[-1] == self.vocab_size else "activations"

    def _asked_by(self, frame: FrameType | None) -> str:
        """What DeepSpeed's function nearest to the frame makes; empty when none of its own asked."""
        while frame is not None:
            code = frame.f_code
            if code not in self._by_code:
                self._by_code[code] = _made_by(code)
            if part := self._by_code[code]:
                return part
            frame = frame.f_back
        return ""


def _made_by(code: CodeType) -> str:
    if code.co_filename.endswith(_FAKE_GPU) and code.co_name == "_move_in_place":
        return "parameters"
    if "deepspeed" not in code.co_filename or code.co_name in _CALLERS:
        return ""
    if code.co_filename.endswith(_GATHERING):
        return "gathered_parameters"
    if code.co_filename.endswith(_OPTIMIZERS) or code.co_name in _REDUCING:
        return _KEEPING.get(code.co_name, "temporaries")
    return ""


def held(engine: Any) -> Iterator[tuple[torch.Tensor, str]]:
    """The tensors that an engine holds between steps, with their parts."""
    for parameter in engine.module.parameters():
        yield parameter.data, "parameters"
        for name in ("ds_tensor", "ds_secondary_tensor"):
            if isinstance(tensor := getattr(parameter, name, None), torch.Tensor):
                yield tensor, "parameters" if name == "ds_tensor" else "gathered_parameters"
        if parameter.grad is not None:
            yield parameter.grad, "gradients"
    for part, names in _HOLDERS.items():
        for name in names:
            for tensor in _tensors(getattr(engine.optimizer, name, None)):
                yield tensor, part
    optimizer = engine.basic_optimizer
    for tensor in _tensors([group["params"] for group in optimizer.param_groups]):
        yield tensor, "optimizer_states"
    for tensor in _tensors(optimizer.state):
        yield tensor, "optimizer_states"


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
