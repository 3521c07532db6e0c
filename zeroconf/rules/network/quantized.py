"""ZC408: quantized communication that saves no time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.rules.planned import set_to
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.planned import Field, Planned

_WEIGHTS: Final[Field] = "quantized_weights"
_GRADIENTS: Final[Field] = "quantized_gradients"


@rule("ZC408", "needless-quantized-communication", severity="info", confidence="medium")
def needless_quantized_communication(timed: Planned) -> Iterator[Problem]:
    """Weights or gradients are quantized for a link that carries them whole in no more time.

    ZeRO++ sends 8-bit weights and 4-bit gradients, and quantizes and unpacks them at both ends
    (runtime/zero/partition_parameters.py, CUDAQuantizer; runtime/comm/coalesced_collectives.py,
    all_to_all_quant_reduce). Where the link is fast the kernels cost more than the bytes save: 33 instead of 29 s per
    iteration is reported (DeepSpeed#4852), and values are rounded for nothing. Told where the same plan without fits as
    well and takes no longer, with the unpacked weights counted at the rate of the card's memory; and where nothing is
    quantized: gradients on one node (runtime/zero/stage3.py, __avg_scatter_grads), both on one GPU.

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
    of_file, plan, cluster = timed.of_file, timed.plan, timed.facts.cluster
    on = {field for field in (_WEIGHTS, _GRADIENTS) if getattr(plan, field)}
    idle = on if cluster.num_gpus == 1 else on & {_GRADIENTS} if cluster.num_nodes == 1 else set()
    place = "one GPU" if cluster.num_gpus == 1 else "one node"
    for field in sorted(idle):
        yield _problem(timed, field, f"has no effect on {place}: nothing is quantized there")
    words, mine, at_work = of_file.words, of_file.candidate, sorted(on - idle)
    for off in (at_work, *([field] for field in at_work)):
        whole = of_file.alternative(**dict.fromkeys(off, False)) if off else None
        if whole is None or not of_file.is_no_slower(whole):
            continue
        which = "both" if len(off) > 1 else "it"
        told = (
            f"saves no time here, and rounds values: {words.time(mine)} and {words.sent(mine)} per GPU and step,"
            f" without {which} {words.time(whole)} and {words.sent(whole)}"
        )
        yield from (_problem(timed, field, told) for field in off)
        return


def _problem(timed: Planned, field: Field, told: str) -> Problem:
    return Problem(f"zero_{field} {told}", timed.path(field), fix=set_to(timed, **{field: False}))
