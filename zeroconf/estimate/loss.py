"""Bytes of logits and of the loss's own tensors, by what computes the cross-entropy.

Counted against PyTorch and Transformers (benchmarks/activations.py) and against the packages' own code
(benchmarks/fused_losses.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.estimate.activations import dtype_bytes
from zeroconf.estimate.families import family_of
from zeroconf.units import ceil_div, next_power_of_two

if TYPE_CHECKING:
    from zeroconf.types import ModelSpec, Workload

_FULL: Final = 4


def logits_bytes(model: ModelSpec, workload: Workload, micro_batch_size: int, *, backward: bool) -> int:
    """Logits and the loss's tensors at the end of forward, or when backward starts, of one micro batch."""
    tokens = workload.local_sequence_length * micro_batch_size
    if workload.cross_entropy == "fused-linear":
        return _fused_linear_bytes(model, workload, tokens, backward=backward)
    one = _torch_bytes(model, workload, backward=backward)
    if workload.tensor_parallel_size > 1 and model.tied_embeddings:
        one = _split_bytes(workload, backward=backward)
    if workload.cross_entropy == "fused":
        one = _fused_bytes(workload, backward=backward)
    capped = dtype_bytes(workload) if family_of(model).soft_capping else 0
    return (one + capped) * model.vocab_size * tokens


def _torch_bytes(model: ModelSpec, workload: Workload, *, backward: bool) -> int:
    """For one logit, with PyTorch's operators.

    Forward: the logits, their fp32 copy, the log-softmax. Backward: the log-softmax, its gradient by the chosen
    classes and the gradient of its input (torch: nll_loss and log_softmax); the logits themselves are gone, unless
    a tanh capped them. Encoders and T5 have the loss in the model's dtype, and a language model's head always.
    Llama-3-8B, 4096 tokens, bf16: 6.3e9 bytes in backward (12 per logit).
    """
    element_bytes = dtype_bytes(workload)
    loss_bytes = 4 if family_of(model).loss_fp32 else element_bytes
    copied = element_bytes if loss_bytes != element_bytes else 0
    return 3 * loss_bytes if backward else 2 * loss_bytes + copied


def _split_bytes(workload: Workload, *, backward: bool) -> int:
    """For one logit of a rank's part of a split vocabulary, which AutoTP makes of a tied one.

    sequence/cross_entropy.py, _VocabParallelCrossEntropy: the logits, their copy without the last, its fp32 copy, that
    less the maximum, its exponential; backward the exponential, its gradient and that in the model's dtype. Bf16: 16
    bytes forward, 10 backward.
    """
    element_bytes = dtype_bytes(workload)
    halves = element_bytes < _FULL
    if backward:
        return 2 * _FULL + (element_bytes if halves else 0)
    return 2 * element_bytes + (_FULL if halves else 0) + 2 * _FULL


def _fused_bytes(workload: Workload, *, backward: bool) -> int:
    """For one logit, with one kernel that reads the logits in the model's dtype: they, and in backward their gradient.

    flash-attn 2.8.3, ops/triton/cross_entropy.py, without ``inplace_backward``. A script that casts the logits to fp32
    first (as Transformers' loss does) saves less. Llama-3-8B, 4096 tokens, bf16: 2.1e9 bytes in backward.
    """
    return (2 if backward else 1) * dtype_bytes(workload)


def _fused_linear_bytes(model: ModelSpec, workload: Workload, tokens: int, *, backward: bool) -> int:
    """The vocabulary's projection and the loss in one, chunk by chunk, gradients computed in forward.

    Liger Kernel 0.8.5, ops/fused_linear_cross_entropy.py: gradients of the hidden states and of the matrix (where it
    trains), which backward takes over; meanwhile one chunk of logits and what they give: the chunk's hidden gradients,
    or a product of the matrix's size with its fp32 copy (releases up to 0.8.0, cards before Ampere; else it adds in
    place). Llama-3-8B, 4096 tokens, bf16: 4.3e9 bytes in forward, 1.1e9 in backward.
    """
    element_bytes = dtype_bytes(workload)
    matrix = model.embedding_parameters if workload.trainable_parameters is None else 0
    kept = element_bytes * (tokens * model.hidden_size + matrix)
    if backward:
        return kept
    rows = min(tokens, next_power_of_two(ceil_div(tokens, ceil_div(model.vocab_size, model.hidden_size))))
    product = max(element_bytes * rows * model.hidden_size, (4 if element_bytes == 4 else element_bytes + 4) * matrix)
    return kept + element_bytes * rows * model.vocab_size + product
