"""The dry run's meter: real DeepSpeed on fake tensors, on a device that needs no memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

    import torch

    from zeroconf.smoke.worker import fake_gpu
    from zeroconf.smoke.worker.ledger import DEVICE, Ledger
    from zeroconf.smoke.worker.meters import Meter
    from zeroconf.smoke.worker.parts import Parts, held
else:
    import fake_gpu
    from ledger import DEVICE, Ledger
    from meters import Meter
    from parts import Parts, held

__all__ = ["DEVICE", "NOTES", "DryMeter"]
NOTES = tuple(one.note for one in fake_gpu.SUBSTITUTIONS if one.note)


class DryMeter(Meter):
    """Bytes in the ledger. Entering it makes every tensor a fake one, and every device the ledger's."""

    name = "fake tensors"

    def __init__(self) -> None:
        self._parts = Parts()
        self._ledger = Ledger(self._parts.classify)
        fake_gpu.substitute(self._ledger)

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
