"""One case in one mode, in a process of its own: the smoke test's worker, with what the oracle puts under it.

``STAND_INS`` lists what a simulated rank has here that this machine's CPU has not; the dry run has as much of its own
(zeroconf/smoke/worker/fake_gpu.py). In the dry run the meter adds host to device, since a simulated rank on the CPU
has one memory.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import traceback
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dry_run
import operators
import rank
from deepspeed.accelerator import abstract_accelerator, set_accelerator
from deepspeed.accelerator.cpu_accelerator import CPU_Accelerator
from deepspeed.ops.op_builder.builder import OpBuilder
from deepspeed.runtime.zero import stage3, stage_1_and_2
from records import Record

if TYPE_CHECKING:
    import torch

# what the forks would each import: two thirds of a run's time
for module in (
    "torch._dynamo",
    "accelerate",
    "peft",
    "transformers.integrations.deepspeed",
    "transformers.models.llama.modeling_llama",
    "transformers.models.mixtral.modeling_mixtral",
):
    importlib.import_module(module)

STAND_INS = (
    "fp16 counts as supported",
    "pinning a tensor copies it, as on a GPU; DeepSpeed's CPU accelerator returns it as it is",
    "compiled kernels (FusedAdam, DeepSpeedCPUAdam, the NVMe swapper's I/O) do nothing, in place, as in the dry run",
    "an overflow is looked for as always, but none is found: what the absent ranks would send is not there",
)


class OneMemory(dry_run.DryMeter):
    """Device and unrounded host bytes together, as the counting allocator has them; the device's own beside them."""

    def __init__(self, gpus_per_node: int) -> None:
        super().__init__(gpus_per_node)
        self._phase = ""
        self._device: dict[str, int] = {}
        self._steady = 0

    def live(self) -> int:
        """Bytes of both now."""
        return self._ledger.requested.live

    def peak(self) -> int:
        """Most bytes of both since the phase started."""
        phase, peak = self._parts.phase, super().peak()
        self._device[phase] = max(self._device.get(phase, 0), peak)
        self._steady = super().live()
        return self._ledger.requested.peak

    def host(self) -> dict[str, Any]:
        """With ``device``: the device's own peaks by phase, and its steady bytes."""
        return super().host() | {"device": self._device | {"steady": self._steady}}


class _Pinned:
    """Which storages count as pinned, as long as they live; the place of the dry run's ledger."""

    def __init__(self) -> None:
        self._addresses: set[int] = set()

    def lock(self, tensor: torch.Tensor) -> None:
        """Books a tensor's storage."""
        storage = tensor.untyped_storage()
        self._addresses.add(storage.data_ptr())
        weakref.finalize(storage, self._addresses.discard, storage.data_ptr())

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._addresses


_PINNED = _Pinned()


class _Accelerator(CPU_Accelerator):  # type: ignore[misc]
    pin_memory = abstract_accelerator.DeepSpeedAccelerator.pin_memory

    def _torch_pin_memory(self, tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.clone()
        _PINNED.lock(copy)
        return copy

    def _torch_is_pinned(self, tensor: torch.Tensor) -> bool:
        return tensor in _PINNED

    def is_fp16_supported(self) -> bool:
        return True


class _Disk(operators.Disk):
    def is_pinned(self, tensor: torch.Tensor) -> bool:
        return tensor in _PINNED


class _Kernel(operators.Kernel):
    def aio_handle(self, *_arguments: Any, **_named: Any) -> _Disk:
        return _Disk(_PINNED)


def _finds_nothing(check: Any) -> Any:
    # a step that is skipped makes no optimizer states
    def checked(*arguments: Any, **named: Any) -> bool:
        check(*arguments, **named)
        return False

    return checked


def _stand_in(mode: str) -> None:
    if mode == "dry-run":
        dry_run.DryMeter = OneMemory
        return
    set_accelerator(_Accelerator())
    for optimizer in (stage_1_and_2.DeepSpeedZeroOptimizer, stage3.DeepSpeedZeroOptimizer_Stage3):
        optimizer.has_overflow = _finds_nothing(optimizer.has_overflow)
    for module in (stage_1_and_2, stage3):
        module.is_invalid_grad_norm = _finds_nothing(lambda _norm: False)
    OpBuilder.load = lambda _builder, *_verbose, **_named: _Kernel(_PINNED)


def run(job: dict[str, Any]) -> dict[str, Any]:
    """The rank's record, with ``error`` when it failed."""
    with tempfile.TemporaryDirectory() as scratch:
        record = Record(scratch, job["rank"])
        try:
            _stand_in(job["mode"])
            rank.run(job | {"scratch": scratch, "results": scratch}, record)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is the result)
            traceback.print_exc()
            record.fail(error)
            at = traceback.extract_tb(error.__traceback__)[-1]
            record.values["error"] = f"{record.values['message']} ({Path(at.filename).name}:{at.lineno})"
        return record.values


def fork(job: dict[str, Any], log: Path) -> tuple[int, int]:
    """Starts a child that runs the job: its process id, and the pipe that its record comes out of."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    os.close(read)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    with os.fdopen(write, "w") as pipe:
        pipe.write(json.dumps(run(job)))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
