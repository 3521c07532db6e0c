"""Where a key that stands in the wrong block belongs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zeroconf.keys import key_table
from zeroconf.rules.keys.walk import dotted, is_known

if TYPE_CHECKING:
    from zeroconf.keys import Release
    from zeroconf.rules.keys.walk import Seen

# fields of an Accelerate YAML, and the keys that say the same to DeepSpeed
ACCELERATE_FIELDS = {
    "zero_stage": "zero_optimization.stage",
    "zero3_save_16bit_model": "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "offload_optimizer_device": "zero_optimization.offload_optimizer.device",
    "offload_optimizer_nvme_path": "zero_optimization.offload_optimizer.nvme_path",
    "offload_param_device": "zero_optimization.offload_param.device",
    "offload_param_nvme_path": "zero_optimization.offload_param.nvme_path",
    "zero3_init_flag": "",
}
# blocks whose keys nobody uses for anything else; a "seed" at the top level may be another program's
_OWN_WORDS = ("", "fp16", "aio", "activation_checkpointing", "checkpoint", "zero_optimization")
_COMMON = 3  # a name in this many blocks says nothing about where it belongs


class Home(NamedTuple):
    """The places, as dotted paths, where a misplaced key would be read.

    ``is_certain``: the key can have been meant for nothing else. ``is_accelerate``: it is a field of Accelerate's
    YAML; without places it has no counterpart in a DeepSpeed configuration.
    """

    places: tuple[str, ...]
    is_certain: bool = True
    is_accelerate: bool = False


def home(seen: Seen, release: Release) -> Home | None:
    """Where the unknown key is known; None when nowhere, or in too many places to mean one."""
    place = ACCELERATE_FIELDS.get(seen.name)
    if place is not None and not (place == "zero_optimization.stage" and seen.block.path):
        return Home((place,) if place else (), is_accelerate=True)
    blocks = [path for path in _known_in(seen.name, release) if path != seen.block.path]
    near = [path for path in blocks if _is_child(path, seen.block.path)]
    near = near or [path for path in blocks if _is_child(seen.block.path, path)]
    places = near or blocks
    if not 0 < len(places) < _COMMON:
        return None
    certain = bool(near and seen.block.path) or all(_is_own_word(path, seen.name) for path in places)
    return Home(tuple(dotted(path, seen.name) for path in places), is_certain=certain)


def _known_in(name: str, release: Release) -> list[str]:
    """The blocks where the key is current."""
    return _homes(release).get(name, [])


@lru_cache(maxsize=4)
def _homes(release: Release) -> dict[str, list[str]]:
    """Every current key with its blocks."""
    found: dict[str, list[str]] = {}
    for path, block in key_table("deepspeed").blocks.items():
        for name, key in block.keys.items() if path != "bfloat16" else ():
            if is_known(key, release) and not key.deprecated:
                found.setdefault(name, []).append(path)
    return found


def _is_child(path: str, parent: str) -> bool:
    head, _, name = path.rpartition(".")
    return bool(name) and head == parent


def _is_own_word(block: str, name: str) -> bool:
    if not block:
        return True
    return "_" in name and (block in _OWN_WORDS or block.startswith("zero_optimization.offload_"))
