"""A user's own ds_config with a plan put into it: what the plan decides is set, everything else stays as it was."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from zeroconf.types import Change

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Path = tuple[str, ...]

_ZERO: Final = "zero_optimization"
_OURS: Final = "_zeroconf"
_STAGE_3: Final = (
    "prefetch_bucket_size",
    "param_persistence_threshold",
    "max_live_parameters",
    "max_reuse_distance",
)
# set as the plan has them, and removed where it has none
_DECIDED: Final[tuple[Path, ...]] = (
    ("train_batch_size",),
    ("train_micro_batch_size_per_gpu",),
    ("gradient_accumulation_steps",),
    ("zero_force_ds_cpu_optimizer",),
    ("bf16", "enabled"),
    ("fp16", "enabled"),
    *((_ZERO, key) for key in ("stage", "overlap_comm", "reduce_bucket_size", "use_multi_rank_bucket_allreduce")),
    *((_ZERO, f"stage3_{key}") for key in _STAGE_3),
    *((_ZERO, key) for key in _STAGE_3),
    *((_ZERO, key) for key in ("sub_group_size", "zero_hpz_partition_size")),
    (_ZERO, "offload_optimizer", "device"),
    (_ZERO, "offload_param", "device"),
    (_ZERO, "offload_optimizer", "nvme_path"),
    (_ZERO, "offload_param", "nvme_path"),
    # what an earlier plan said of itself
    (_OURS, "reasons"),
    (_OURS, "verified"),
    # before 0.3.15; offload_optimizer took its place
    *((_ZERO, key) for key in ("cpu_offload", "cpu_offload_params", "cpu_offload_use_pin_memory")),
)
# of no effect when the plan has none of their kind
_REMOVED_WITHOUT: Final[tuple[Path, ...]] = (
    ("bf16",),
    ("bfloat16",),
    ("fp16",),
    (_ZERO, "offload_optimizer"),
    (_ZERO, "offload_param"),
    (_ZERO, "stage3_gather_16bit_weights_on_model_save"),
    (_ZERO, "gather_16bit_weights_on_model_save"),
    (_ZERO, "stage3_gather_fp16_weights_on_model_save"),
    ("aio",),
)


def merged(base: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with what the plan decides taken from ``ours``; other keys of ``ours`` only where ``base`` has none.

    A base's ``optimizer`` is kept whole: it is the user's, and names who builds it.
    """
    result: dict[str, Any] = copy.deepcopy(dict(base))
    for path in (*_DECIDED, *_REMOVED_WITHOUT):
        if _at(ours, path) is None:
            _remove(result, path)
    if result.get(_OURS) == {}:
        del result[_OURS]
    for path, value in _leaves(ours):
        if path[0] == "optimizer" and isinstance(base.get("optimizer"), dict):
            continue
        if path in _DECIDED or _at(result, path) is None:
            _set(result, path, value)
    return result


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """Each leaf that was set, added or removed, in the order of the new file, then of the old one; not our own."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    found = [
        Change(key=".".join(path), kind="changed" if path in old else "added", before=old.get(path), after=value)
        for path, value in new.items()
        if path[0] != _OURS and (path not in old or old[path] != value or type(old[path]) is not type(value))
    ]
    gone = [
        Change(key=".".join(path), kind="removed", before=value, after=None)
        for path, value in old.items()
        if path not in new and path[0] != _OURS
    ]
    return (*found, *gone)


def _leaves(config: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value that is no block, and every empty block, by its path."""
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), value


def _at(config: Mapping[str, Any], path: Path) -> Any:
    value: Any = config
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _remove(config: dict[str, Any], path: Path) -> None:
    block = _at(config, path[:-1]) if path[:-1] else config
    if isinstance(block, dict):
        block.pop(path[-1], None)


def _set(config: dict[str, Any], path: Path, value: Any) -> None:
    block = config
    for key in path[:-1]:
        if not isinstance(block.get(key), dict):
            block[key] = {}
        block = block[key]
    block[path[-1]] = value
