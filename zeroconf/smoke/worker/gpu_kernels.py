"""What PyTorch runs on a GPU where it runs something else on the CPU, as which the ledger's device computes.

Each function here takes the place of the one of its name; memory is what they are about: what they save for backward,
and what they need meanwhile. Sources are files of PyTorch below aten/src/ATen/native.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

if TYPE_CHECKING:
    from collections.abc import Callable

_aten = torch.ops.aten
_HALVES = (torch.bfloat16, torch.float16)
_FLASH_HEAD_SIZES = 256  # transformers/cuda/sdp_utils.cpp: check_head_dim_size_flash


def attention(plain: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``scaled_dot_product_attention`` by the kernel that CUDA picks; tensors are (batch, heads, sequence, head size).

    transformers/cuda/sdp_utils.cpp: the flash kernel takes half precision without a mask, heads grouped or not; the
    memory-efficient one takes masks and fp32, but no grouped heads; what neither takes is computed with all scores.
    """

    def scaled_dot_product_attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        query, key, value, attn_mask = _autocast(query, key, value, attn_mask)
        options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale}
        if query.dim() != len("bhsd"):
            return plain(query, key, value, attn_mask, enable_gqa=enable_gqa, **options)
        if attn_mask is None and query.dtype in _HALVES and _fit_flash(query, value):
            return flash_attention(query, key, value, **options)
        if query.shape[-3] == key.shape[-3] and _fit_efficient(query, value):
            return _efficient_attention(query, key, value, attn_mask, **options)
        scores = _aten._scaled_dot_product_attention_math  # noqa: SLF001  (kernels have no public names)
        return scores(query, key, value, attn_mask, enable_gqa=enable_gqa, **options)[0]

    return scaled_dot_product_attention


def _autocast(*tensors: torch.Tensor | None) -> tuple[Any, ...]:
    # autocast_mode.h casts the arguments of the public function, which is not reached here
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    dtype = torch.get_autocast_dtype("cpu")
    return tuple(one.to(dtype) if one is not None and one.is_floating_point() else one for one in tensors)


def _fit_flash(query: torch.Tensor, value: torch.Tensor) -> bool:
    return bool(query.shape[-1] == value.shape[-1] <= _FLASH_HEAD_SIZES)


def _fit_efficient(query: torch.Tensor, value: torch.Tensor) -> bool:
    # check_head_dim_size_mem_efficient: heads are aligned to 16 bytes
    aligned = 16 // query.element_size()
    return bool(query.shape[-1] % aligned == 0 and value.shape[-1] % aligned == 0)


def flash_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **options: Any) -> torch.Tensor:
    """The flash kernel: saves queries, keys, values as they are, output and log-sum-exp (4 bytes a head and token).

    transformers/attention.cpp: head sizes are padded to multiples of 8.

    Raises:
        ValueError: the tensors are not in half precision.
    """
    query, key, value = _autocast(query, key, value)
    if query.dtype not in _HALVES:
        msg = "flash attention takes bf16 and fp16, not fp32"
        raise ValueError(msg)
    size = query.shape[-1]
    if size % 8:
        query, key, value = (torch.nn.functional.pad(one, (0, -size % 8)) for one in (query, key, value))
    kernel = _aten._scaled_dot_product_flash_attention  # noqa: SLF001
    output: torch.Tensor = kernel(query, key, value, **options)[0]
    return output[..., :size]


def _efficient_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, **options: Any
) -> torch.Tensor:
    """The memory-efficient kernel: saves what the flash kernel saves, and the mask as numbers to add."""
    if mask is not None:
        if mask.dtype is torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, float("-inf"))
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
    kernel = _aten._scaled_dot_product_efficient_attention  # noqa: SLF001
    output: torch.Tensor = kernel(query, key, value, mask, compute_log_sumexp=True, **options)[0]
    return output


def dropout(plain: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``dropout`` that saves a mask of one byte an element (Dropout.cpp: is_fused_kernel_acceptable), not a factor."""

    def fused(tensor: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        if inplace or not training or not 0 < p < 1:
            return plain(tensor, p, training, inplace)
        return torch.native_dropout(tensor, p, train=True)[0]

    return fused


def softmax(plain: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``softmax`` that reads fp16 and writes fp32 without a copy between (SoftMax.cpp: half_to_float)."""

    def fused(tensor: torch.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> torch.Tensor:
        if dim is not None and tensor.dtype is torch.float16 and dtype is torch.float32:
            return _aten._softmax(tensor, dim, half_to_float=True)  # noqa: SLF001
        return plain(tensor, dim, _stacklevel, dtype)

    return fused


def tensor(plain: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``torch.tensor`` that knows the device it was given: PyTorch makes the values on the host, and forgets it."""

    def on_device(data: Any, **named: Any) -> torch.Tensor:
        made = plain(data, **named)
        device = torch.device(named.get("device") or "cpu")
        if isinstance(made, FakeTensor) and device.index is not None:
            made.fake_device = device
        return made

    return on_device


def isinf(plain: Any) -> Any:
    """``torch.isinf`` as its kernel computes it (TensorCompare.cpp): of absolute values, a copy."""

    def compared(tensor: torch.Tensor) -> Any:
        return tensor.abs() == math.inf if tensor.is_floating_point() else plain(tensor)

    return compared


def flash_workspace(query: torch.Tensor, key: torch.Tensor) -> int:
    """Bytes that the flash kernel's backward needs beside its results.

    transformers/cuda/flash_attn/flash_api.cpp, mha_bwd: gradients of the queries in fp32, in whole blocks of tokens and
    of head elements; a number a head and token; with grouped heads, gradients of keys and values for each query head.
    """
    batch, heads, tokens, size = map(int, query.shape)
    padded = -(-tokens // 128) * 128
    block = 32 if size <= 128 else 64
    accumulated = 4 * batch * heads * padded * (-(-size // block) * block + 1)
    if key.shape[1] == heads:
        return accumulated
    return accumulated + 2 * batch * heads * int(key.shape[2]) * size * int(query.element_size())


_FLASH_BACKWARD = _aten._scaled_dot_product_flash_attention_backward.default  # noqa: SLF001
# operators whose kernels on a GPU allocate more than they return, with a function of their arguments to bytes
WORKSPACES: dict[Any, Callable[..., int]] = {
    _FLASH_BACKWARD: lambda _grad, query, key, *_, **__: flash_workspace(query, key)
}
