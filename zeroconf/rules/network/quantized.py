"""ZC408: quantized communication that saves no time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.rules.planned import set_to
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.planned import Field, Planned

_FIELDS: Final[tuple[Field, ...]] = ("quantized_weights", "quantized_gradients")


@rule("ZC408", "needless-quantized-communication", severity="info", confidence="medium")
def needless_quantized_communication(timed: Planned) -> Iterator[Problem]:
    """Weights or gradients are quantized for a link that carries them whole in the same time.

    ZeRO++ sends 8-bit weights and 4-bit gradients, and quantizes and unpacks them at both ends
    (runtime/zero/partition_parameters.py, CUDAQuantizer; runtime/comm/coalesced_collectives.py,
    all_to_all_quant_reduce). Where the link is fast the kernels cost more than the bytes save: 33 instead of 29 s per
    iteration is reported (DeepSpeed#4852), and values are rounded for nothing. Told where the same plan without fits as
    well and is at most 3 percent slower, with the unpacked weights counted at the rate of the card's memory.

    Example:
        ```json model=llama-3.1-8b hardware=8xA100-80GB seq-len=2048
        {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3, "zero_quantized_weights": true}}
        ```

    Use instead:
        ```json model=llama-3.1-8b hardware=8xA100-80GB seq-len=2048
        {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
         "zero_optimization": {"stage": 3}}
        ```
    """
    of_file, plan = timed.of_file, timed.plan
    for field in _FIELDS:
        if not getattr(plan, field):
            continue
        whole = of_file.alternative(**{field: False})
        if whole is None or not of_file.is_no_slower(whole, ties=True):
            continue
        path, words, mine = timed.path(field), of_file.words, of_file.candidate
        yield Problem(
            f"{path[-1]} saves no time here, and rounds values: {words.time(mine)} and {words.sent(mine)} per GPU and"
            f" step, without it {words.time(whole)} and {words.sent(whole)}",
            path,
            fix=set_to(timed, **{field: False}),
        )
