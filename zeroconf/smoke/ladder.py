"""The next configuration to try where nothing is known of the card: each rung takes less of its memory than the last.

What costs nothing but time comes first, and the batch of an optimizer step stays as it was.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CPU: dict[str, Any] = {"device": "cpu", "pin_memory": True}


class Rung(NamedTuple):
    """A ds_config, its batch split and whether activations are recomputed, with the change that led to it."""

    content: dict[str, Any]
    micro_batch_size: int
    gradient_accumulation_steps: int
    activation_checkpointing: bool
    title: str = "as given"


def down(rung: Rung, *, host_is_full: bool = False) -> Rung | None:
    """The rung below, None at the bottom. With ``host_is_full`` nothing goes to the host, and what is there comes back.

    Micro batch 1; recomputation; stage 2, 3; the optimizer on the CPU; the parameters too.
    """
    steps = _lighter_host(rung) if host_is_full else _lighter_card(rung)
    return next(steps, None)


def _lighter_card(rung: Rung) -> Iterator[Rung]:
    zero = _zero(rung.content)
    stage = int(zero.get("stage", 0))
    yield from _on_the_card(rung)
    if stage > 0 and not _offloads(zero, "offload_optimizer"):
        yield _changed(rung, {"offload_optimizer": _CPU}, "the optimizer on the CPU")
    if stage == 3 and not _offloads(zero, "offload_param"):
        yield _changed(rung, {"offload_param": _CPU}, "the parameters on the CPU")


def _lighter_host(rung: Rung) -> Iterator[Rung]:
    zero = _zero(rung.content)
    for block, what in (("offload_param", "parameters"), ("offload_optimizer", "optimizer")):
        if _offloads(zero, block):
            yield _changed(rung, {block: None}, f"the {what} back on the card")
    yield from _on_the_card(rung)


def _on_the_card(rung: Rung) -> Iterator[Rung]:
    """Smaller micro batch, recomputation, higher stage."""
    micro = rung.micro_batch_size
    if micro > 1:
        steps = rung.gradient_accumulation_steps * micro
        batch = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": steps}
        yield rung._replace(
            content=copy.deepcopy(rung.content) | batch,
            micro_batch_size=1,
            gradient_accumulation_steps=steps,
            title=f"micro batch 1 x accumulation {steps}",
        )
    if not rung.activation_checkpointing:
        yield rung._replace(activation_checkpointing=True, title="activations recomputed")
    stage = int(_zero(rung.content).get("stage", 0))
    for higher in range(max(2, stage + 1), 4):
        yield _changed(rung, {"stage": higher}, f"stage {higher}")


def _changed(rung: Rung, keys: Mapping[str, Any], title: str) -> Rung:
    content = copy.deepcopy(rung.content)
    zero = _zero(content) | copy.deepcopy(dict(keys))
    content["zero_optimization"] = {key: value for key, value in zero.items() if value is not None}
    return rung._replace(content=content, title=title)


def _zero(content: Mapping[str, Any]) -> dict[str, Any]:
    block = content.get("zero_optimization")
    return dict(block) if isinstance(block, dict) else {}


def _offloads(zero: Mapping[str, Any], name: str) -> bool:
    block = zero.get(name)
    return isinstance(block, dict) and block.get("device", "none") != "none"
