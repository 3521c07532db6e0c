"""What a key that nobody knows was probably meant to be."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from zeroconf.document.recognise import snake_case

if TYPE_CHECKING:
    from collections.abc import Iterable

# other programs' words for DeepSpeed's keys, by block
_SYNONYMS = {
    "": {
        "batch_size": "train_batch_size",
        "bfloat_16": "bf16",
        "clip_grad": "gradient_clipping",
        "global_batch_size": "train_batch_size",
        "grad_accum_steps": "gradient_accumulation_steps",
        "grad_clip": "gradient_clipping",
        "gradient_accumulation": "gradient_accumulation_steps",
        "gradient_clip": "gradient_clipping",
        "gradient_clip_val": "gradient_clipping",
        "log_interval": "steps_per_print",
        "logging_steps": "steps_per_print",
        "lr_scheduler": "scheduler",
        "max_grad_norm": "gradient_clipping",
        "micro_batch_size": "train_micro_batch_size_per_gpu",
        "micro_batch_size_per_gpu": "train_micro_batch_size_per_gpu",
        "per_device_train_batch_size": "train_micro_batch_size_per_gpu",
        "train_micro_batch_size": "train_micro_batch_size_per_gpu",
        "zero": "zero_optimization",
        "zero_config": "zero_optimization",
    },
    "activation_checkpointing": {
        "num_checkpoints": "number_checkpoints",
        "cpu_offload": "cpu_checkpointing",
    },
    "checkpoint": {
        "load_universal_checkpoint": "load_universal",
        "universal_checkpoint": "load_universal",
    },
    "data_types": {
        "grad_accumulation_dtype": "grad_accum_dtype",
        "gradient_accumulation_dtype": "grad_accum_dtype",
    },
    "optimizer": {"name": "type", "parameters": "params"},
    "scheduler": {"name": "type", "parameters": "params"},
    "tensor_parallel": {"tp_size": "autotp_size"},
    "zero_optimization": {
        "find_unused_parameters": "ignore_unused_parameters",
        "hpz_partition_size": "zero_hpz_partition_size",
        "zero_stage": "stage",
    },
}


def nearest(block: str, word: str, names: Iterable[str]) -> str | None:
    """The one name that the word almost surely means; None when there is none, or more than one.

    The same name in another case, nearly the same spelling (one change in four letters, three at most), the beginning
    of the name, or another program's word for it.
    """
    known = list(names)
    # words like fp16Enabled have humps, FP16 has none
    spelled = next((form for form in (snake_case(word), word.lower()) if form in known), snake_case(word))
    synonym = _SYNONYMS.get(block, {}).get(spelled)
    if synonym in known:
        return synonym
    limit = min(3, len(spelled) // 4)
    letters = _letters(spelled)
    alike = [name for name in known if (letters & ~_letters(name)).bit_count() <= limit]
    close = sorted((distance, name) for name in alike if (distance := distance_up_to(spelled, name, limit)) <= limit)
    if close:
        return close[0][1] if len(close) == 1 or close[0][0] < close[1][0] else None
    begun = [name for name in known if name.startswith(spelled)] if len(spelled) >= 6 else []
    return begun[0] if len(begun) == 1 else None


def most_in_common(word: str, other: str) -> int:
    """How many of a word's letters stand in the other at most: a quick look before the slow comparison."""
    return len(word) - (_letters(word) & ~_letters(other)).bit_count()


@lru_cache(maxsize=2048)
def _letters(word: str) -> int:
    """The letters of a word as bits: each that another word has not costs a change at least."""
    bits = 0
    for letter in word:
        bits |= 1 << ord(letter) % 128
    return bits


def distance_up_to(left: str, right: str, limit: int) -> int:
    """Letters to insert, drop, replace or swap with their neighbour between two words; above the limit, more than it.

    Optimal string alignment distance.
    """
    more = limit + 1
    if abs(len(left) - len(right)) > limit:
        return more
    before_last: list[int] = []
    last = list(range(len(right) + 1))
    for row, letter in enumerate(left, 1):
        line = [row]
        for column, other in enumerate(right, 1):
            cost = min(last[column] + 1, line[-1] + 1, last[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == right[column - 2] and left[row - 2] == other:
                cost = min(cost, before_last[column - 2] + 1)
            line.append(cost)
        if min(line) > limit:
            return more
        before_last, last = last, line
    return last[-1]
