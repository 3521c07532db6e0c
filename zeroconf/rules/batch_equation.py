"""DeepSpeed's batch equation at a known number of GPUs.

runtime/config.py, _set_batch_related_parameters and _batch_assertion: train_batch_size =
train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel ranks, the missing one divided for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.rules.values.settings import count, whole
from zeroconf.units import ceil_div

if TYPE_CHECKING:
    from zeroconf.rules.facts import DsConfig

TRAIN: Final = "train_batch_size"
_MICRO, _STEPS = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"


class Mismatch(NamedTuple):
    """``relation`` says what train_batch_size is not: ``is not ... 4 x ... 2 x 8 ranks = 64``; ``right`` would do."""

    relation: str
    right: int


def parallel_sizes(config: DsConfig) -> dict[tuple[str, ...], int]:
    """The sizes of groups of GPUs that share each sequence, where they are more than 1."""
    keys = (("sequence_parallel_size",), ("tensor_parallel", "autotp_size"))
    sizes = {key: whole(config, *key) for key in keys}
    return {key: size for key, size in sizes.items() if size is not None and size > 1}


def mismatch(config: DsConfig, num_gpus: int) -> Mismatch | None:
    """Why the file's train_batch_size fits no split over so many GPUs; None where it does, or where none is fixed.

    Also None where no number of GPUs would help (ZC201), and where the groups do not divide the GPUs (ZC308).
    """
    train, micro, steps = (count(config, key) for key in (TRAIN, _MICRO, _STEPS))
    ranks = num_gpus
    for size in parallel_sizes(config).values():
        ranks = 0 if ranks % size else ranks // size
    if train is None or ranks == 0 or config.is_on("elasticity", "enabled"):
        return None
    per_rank = (micro or 1) * (steps or 1)
    if min(train, per_rank) < 1 or train % per_rank:
        return None
    unit = per_rank * ranks
    is_whole = micro is not None and steps is not None
    if train == unit or (not is_whole and train % unit == 0):
        return None
    named = [f"{name} {size}" for name, size in ((_MICRO, micro), (_STEPS, steps)) if size is not None]
    product = " x ".join([*named, f"{ranks} ranks"])
    if is_whole:
        return Mismatch(f"is not {product} = {unit}", unit)
    total = f" = {unit}" if named else ""
    return Mismatch(f"is no multiple of {product}{total}", ceil_div(train, unit) * unit)
