"""Stage 0: plain data parallelism, with or without a 16-bit wrapper around the optimizer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zeroconf.estimate.moments import StateMoments
from zeroconf.estimate.optimizers import MASTER_BYTES
from zeroconf.types import MemoryParts

if TYPE_CHECKING:
    from zeroconf.estimate.sizes import Sizes
    from zeroconf.types import Plan

# engine.py: allreduce_bucket flattens gradients in buckets of 5e8 elements at stage 0
STAGE_0_BUCKET: Final = 500_000_000


def stage_0(s: Sizes, plan: Plan) -> StateMoments:
    """The wrapper decides what init and step need; forward and backward are the same for all three.

    Backward ends with all gradients and the flat copy of one bucket for its all-reduce, twice if it is
    communicated in another type. 8.03e9 parameters in bf16: 16.06e9 + 1e9 bytes beside the states.
    """
    b, t = s.element_bytes, s.trainable
    master = 0 if b == MASTER_BYTES else MASTER_BYTES * t
    states = 0 if s.optimizer.factored else s.moments_bytes
    steady = MemoryParts(parameters=b * s.total, optimizer_states=master + states)
    gradients = replace(steady, gradients=b * t)
    bucket = min(t, STAGE_0_BUCKET)
    flat = b * bucket + (s.communication_bytes * bucket if s.communication_bytes != b else 0)
    accumulated = gradients if plan.gradient_accumulation_steps > 1 else steady
    if b == MASTER_BYTES:
        init, step = _plain(s, steady)
    elif s.optimizer.fused_adam:
        init, step = _fused(s, steady)
    else:
        init, step = _unfused(s, steady)
    return StateMoments(
        init=init,
        steady=steady,
        forward=replace(accumulated, activations=s.autocast_cache),
        backward_start=replace(accumulated, activations=s.autocast_cache),
        backward_end=replace(gradients, temporaries=flat, activations=2 * s.tied_bytes),
        step=step,
    )


def _optimizer_temporaries(s: Sizes) -> int:
    """What the optimizer needs on unflattened parameters."""
    return s.optimizer.temporary_bytes * (s.trainable if s.optimizer.whole else s.largest)


def _plain(s: Sizes, steady: MemoryParts) -> tuple[MemoryParts, MemoryParts]:
    """Fp32: no wrapper; the optimizer makes its states in the first step. 16 bytes per parameter with Adam."""
    gradients = MASTER_BYTES * s.trainable
    return (
        MemoryParts(parameters=steady.parameters),
        replace(steady, gradients=gradients, temporaries=_optimizer_temporaries(s)),
    )


def _fused(s: Sizes, steady: MemoryParts) -> tuple[MemoryParts, MemoryParts]:
    """fp16/fused_optimizer.py, FP16_Optimizer (FusedAdam, also in bf16): flat fp32 groups.

    Init runs a step on fp32 zeros. The real step holds the 16-bit gradients, a list of fp32 casts and their flat
    copy: 24 bytes per parameter. 8.03e9 parameters: 192.7e9 bytes, steady 112.4e9.
    """
    casts = MASTER_BYTES * s.trainable
    return (
        replace(steady, temporaries=casts),
        replace(steady, gradients=s.element_bytes * s.trainable, temporaries=2 * casts),
    )


def _unfused(s: Sizes, steady: MemoryParts) -> tuple[MemoryParts, MemoryParts]:
    """fp16/unfused_optimizer.py, FP16_UnfusedOptimizer (all but FusedAdam): fp32 copies tensor by tensor.

    Init (initialize_optimizer_states) and step both hold 16-bit and fp32 gradients: 20 bytes per parameter with
    torch's AdamW, and its temporaries. 8.03e9 parameters: 160.6e9 bytes.
    """
    casts = MASTER_BYTES * s.trainable + _optimizer_temporaries(s)
    held = replace(steady, gradients=s.element_bytes * s.trainable, temporaries=casts)
    return held, held
