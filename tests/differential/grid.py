"""Every known key with every kind of value: what random changes reach only by luck."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any

from bases import Base, Config, to_text
from mutate import Mutant, put

from zeroconf.keys import key_table

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.5, 2.0, 10**12, "auto", "text", "1", "true", "cpu", [], [1], ["a"], {}, {"a": 1},
)  # fmt: skip
_PLAIN: Config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": 3}}
# blocks that mean nothing without another key
_WITH: dict[str, Config] = {
    "optimizer": {"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}},
    "optimizer.params": {"optimizer": {"type": "AdamW", "params": {"lr": 0.001}}},
    "scheduler": {"scheduler": {"type": "WarmupLR", "params": {}}},
    "scheduler.params": {"scheduler": {"type": "WarmupLR", "params": {}}},
    "bfloat16": {"bf16": None},
    "fp16": {"bf16": {"enabled": False}},
}
_YAML: Config = {
    "compute_environment": "LOCAL_MACHINE",
    "distributed_type": "DEEPSPEED",
    "mixed_precision": "bf16",
    "num_machines": 1,
    "num_processes": 8,
    "deepspeed_config": {"zero_stage": 3},
}


def grid(every: int = 1, start: int = 0) -> Iterator[Mutant]:
    """Each key of DeepSpeed and Accelerate with each value, for one of its readers in turn; every so many of them."""
    readers = itertools.cycle(("deepspeed", "trainer", "deepspeed", "accelerate", "deepspeed", "trainer", "deepspeed"))
    for number, (syntax, base, path, value) in enumerate(_combinations()):
        reader = next(readers) if syntax == "json" else "accelerate"
        if number % every != start:
            continue
        config = copy.deepcopy(base)
        if path == ("zero_optimization", "stage") or path[0] != "zero_optimization" or len(path) > 1:
            put(config, path, value)
        else:
            config["zero_optimization"] = value
        what = f"{'.'.join(path)} = {value!r}"
        yield Mutant(Base("grid", syntax, base), reader, "grid", what, to_text(syntax, config), config)


def _combinations() -> Iterator[tuple[str, Config, tuple[str, ...], Any]]:
    for library, syntax, plain in (("deepspeed", "json", _PLAIN), ("accelerate", "yaml", _YAML)):
        for block in key_table(library).blocks.values():  # type: ignore[arg-type]
            above = tuple(block.path.split(".")) if block.path else ()
            base = {**plain, **_WITH.get(block.path, {})}
            base = {key: value for key, value in base.items() if value is not None}
            for name, value in itertools.product(block.keys, VALUES):
                yield syntax, base, (*above, name), value
