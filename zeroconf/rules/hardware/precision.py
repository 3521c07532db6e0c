"""ZC305 and ZC306: precisions that a GPU does not compute in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.rules.registry import Problem, rule
from zeroconf.rules.values.settings import bf16_block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig
    from zeroconf.types import Gpu


@rule("ZC305", "bf16-without-hardware", severity="warning")
def bf16_without_hardware(config: DsConfig, gpu: Gpu) -> Iterator[Problem]:
    """bf16 is on for a GPU that has no bf16 arithmetic.

    GPUs before Ampere (compute capability 8.0) emulate it. DeepSpeed, Accelerate and the Trainer ask
    torch.cuda.is_bf16_supported(), which counts emulation (torch/cuda/__init__.py; runtime/engine.py,
    _do_sanity_check), so nothing stops: training is just several times slower than in fp16, whose tensor cores stand
    idle (DeepSpeed#6723, LMFlow#88; older releases refused it).

    Example:
        ```json hardware=8xV100-32GB
        {"train_batch_size": 64, "bf16": {"enabled": true}}
        ```

    Use instead:
        ```json hardware=8xV100-32GB
        {"train_batch_size": 64, "fp16": {"enabled": true}}
        ```
    """
    block = bf16_block(config)
    if not gpu.bf16 and config.enabled(block):
        yield Problem(
            f"{gpu.name} ({gpu.architecture or 'before Ampere'}) has no bf16 arithmetic and emulates it slowly; use"
            " fp16, or fp32 where the model was trained in bf16 and overflows",
            config.path(block, "enabled"),
        )


@rule("ZC306", "fp16-refused-on-pascal", severity="error")
def fp16_refused_on_pascal(config: DsConfig, gpu: Gpu) -> Iterator[Problem]:
    """fp16 is on for a GPU on which DeepSpeed refuses it.

    "Type fp16 is not supported on your device" (runtime/engine.py, _do_sanity_check): compute capability 6.x (P100 and
    other Pascal cards) counts as deprecated unless the environment has DS_ALLOW_DEPRECATED_FP16=1
    (accelerator/cuda_accelerator.py, is_fp16_supported; DeepSpeed#6723).

    Example:
        ```json hardware=4xP100-16GB
        {"train_batch_size": 64, "fp16": {"enabled": true}}
        ```

    Use instead:
        ```json hardware=4xP100-16GB
        {"train_batch_size": 64}
        ```
    """
    if gpu.deprecates_fp16 and config.enabled("fp16"):
        yield Problem(
            f"DeepSpeed refuses fp16 on {gpu.name} (Pascal); train in fp32, or set DS_ALLOW_DEPRECATED_FP16=1",
            config.path("fp16", "enabled"),
        )
