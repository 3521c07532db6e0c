"""The dry run's meter: real DeepSpeed on fake tensors, on a device that needs no memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import deepspeed
from torch._subclasses import fake_tensor

if TYPE_CHECKING:
    from typing import Self

    import torch

    from zeroconf.smoke.worker import fake_gpu
    from zeroconf.smoke.worker.fill import block
    from zeroconf.smoke.worker.ledger import DEVICE, Ledger
    from zeroconf.smoke.worker.meters import Meter
    from zeroconf.smoke.worker.parts import Parts, held
else:
    import fake_gpu
    from fill import block
    from ledger import DEVICE, Ledger
    from meters import Meter
    from parts import Parts, held

__all__ = ["DEVICE", "NOTES", "DryMeter"]
NOTES = tuple(one.note for one in fake_gpu.SUBSTITUTIONS if one.note)


# releases of DeepSpeed that the substitutions were tried on (benchmarks/dry_run_releases.py)
_OLDEST, _NEWEST = (0, 16), (0, 19)
_NO_VALUES = (
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.UnsupportedFakeTensorException,
    fake_tensor.UnsupportedOperatorException,
)
_NO_ADDRESS = ("Cannot access data pointer of Tensor", "its data is not allocated yet")


# what a dry run cannot show, by the path of the key that asks for it
_NOT_SHOWN = {
    "zero_optimization.zenflow": "ZenFlow picks what it updates on the GPU by the gradients' values",
    "zero_optimization.offload_optimizer.super_offload": "SuperOffload updates weights in a process of its own",
}


class UnsupportedError(Exception):
    """The configuration asks for what a dry run cannot show."""


def check(config: dict[str, Any]) -> None:
    """Looks for features that a dry run cannot show.

    Raises:
        UnsupportedError: the configuration has one.
    """
    for path, reason in _NOT_SHOWN.items():
        *parents, key = path.split(".")
        if block(config, *parents).get(key):
            raise UnsupportedError(reason)


def cannot_run(error: BaseException) -> str:
    """Why an error is the dry run's own and says nothing about the configuration; empty when it does."""
    if isinstance(error, UnsupportedError):
        return str(error)
    said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    if isinstance(error, _NO_VALUES) or any(sign in said for sign in _NO_ADDRESS):
        return f"it needs values or addresses, which fake tensors have not ({said})"
    if isinstance(error, ZeroDivisionError):
        return f"it divides by a value of a tensor, which reads as 0 ({said})"
    release = tuple(map(int, deepspeed.__version__.split(".")[:2]))
    if not _OLDEST <= release <= _NEWEST:
        known = f"{'.'.join(map(str, _OLDEST))} to {'.'.join(map(str, _NEWEST))}"
        return f"it knows DeepSpeed {known}, not {deepspeed.__version__} ({said})"
    return ""


class DryMeter(Meter):
    """Bytes in the ledger. Entering it makes every tensor a fake one, and every device the ledger's."""

    name = "fake tensors"

    def __init__(self, gpus_per_node: int) -> None:
        self._parts = Parts()
        self._ledger = Ledger(self._parts.classify)
        fake_gpu.substitute(self._ledger, gpus_per_node)

    def __enter__(self) -> Self:
        """Fake tensors from here on."""
        self._ledger.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Real tensors again."""
        self._ledger.__exit__(*error)

    def live(self) -> int:
        """Bytes on the device now."""
        return self._ledger.device.live

    def peak(self) -> int:
        """Most bytes on the device since the phase started."""
        return self._ledger.device.peak

    def parts(self) -> dict[str, int]:
        """The parts at that peak, as the estimate names them."""
        return {part: size for part, size in sorted(self._ledger.device.parts_at_peak.items()) if size}

    def host(self) -> dict[str, int]:
        """Host memory: pinned as its allocator rounds it, pageable, and the most of both at any time."""
        return {
            "pinned_bytes": self._ledger.pinned.live,
            "pageable_bytes": self._ledger.pageable.live,
            "peak_bytes": self._ledger.host_peak,
        }

    def start(self, phase: str) -> None:
        """Starts a phase: what is made now is classified by it."""
        self._parts.phase = phase
        self._ledger.start_peak()

    def watch(self, model: Any) -> None:
        """Learns the vocabulary, and of each gradient when it is complete."""
        self._parts.vocab_size = getattr(model.config, "vocab_size", 0)
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._is_gradient)

    def _is_gradient(self, parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            self._ledger.label([(parameter.grad, "gradients")])

    def settle(self, engine: Any) -> None:
        """What lives on between steps is known by who holds it; the rest of it are buffers."""
        self._ledger.label(held(engine), rest="buffers")
