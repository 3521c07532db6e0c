"""What a parameter or type that the library does not know was probably meant to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroconf.document import edits
from zeroconf.keys import key_table
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.keys.fits import fits
from zeroconf.rules.keys.near import nearest
from zeroconf.rules.registry import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from zeroconf.document.edits import Fix
    from zeroconf.document.node import Member, Node
    from zeroconf.keys import Release
    from zeroconf.rules.facts import DsConfig

# other programs' words for parameters; of several names the first that the type takes is meant
_SYNONYMS: dict[str, dict[str, tuple[str, ...]]] = {
    "optimizer": {
        **dict.fromkeys(("learning_rate", "base_lr"), ("lr",)),
        **dict.fromkeys(("beta", "beta1", "beta2", "adam_beta1", "adam_beta2"), ("betas",)),
        **dict.fromkeys(("wd", "weight_decay_rate", "l2"), ("weight_decay",)),
        **dict.fromkeys(("epsilon", "adam_epsilon"), ("eps",)),
        "correct_bias": ("bias_correction",),
    },
    "scheduler": {
        **dict.fromkeys(("warmup_steps", "num_warmup_steps", "warmup"), ("warmup_num_steps",)),
        **dict.fromkeys(
            ("total_steps", "num_total_steps", "max_steps", "training_steps", "num_training_steps"),
            ("total_num_steps",),
        ),
        "max_lr": ("warmup_max_lr", "cycle_max_lr"),
        "min_lr": ("warmup_min_lr", "cycle_min_lr", "lr_range_test_min_lr"),
        "cycle_max_momentum": ("cycle_max_mom",),
        "cycle_min_momentum": ("cycle_min_mom",),
    },
}
_OPPOSITES = (("min", "max"), ("first", "second"))


def unknown_params(
    config: DsConfig, block: str, taken: Collection[str], others: Collection[str], who: str, release: Release
) -> Iterator[tuple[str | None, Problem]]:
    """A problem for each of a block's params that its type does not take, with the name that it was meant to be.

    What is nearly a parameter is renamed to it, unless that one is there; what another type takes (``others``) goes;
    of anything else nobody knows what was meant. ``who`` is the type in words.
    """
    node = config.node(block, "params")
    given = {member.key for member in node.members} if node else set()
    for member in _members(node):
        if member.key in taken:
            continue
        path = config.path(block, "params", member.key)
        near = None if member.key in others else meant_param(block, member.key, taken)
        fix = None
        if near is None:
            tail = f"it takes {', '.join(sorted(taken))}"
            if member.key in others:
                fix = cure(f"Remove {member.key}", edits.remove(config.document, path), safe=False)
        else:
            tail = f"the key is {near}" + (", which is there too" if near in given else "")
            fix = None if near in given else _renamed(config, block, member, near, release)
            given.add(near)
        yield near, Problem(f"{who} takes no {member.key}; {tail}", path, on_key=True, fix=fix)


def meant_param(block: str, word: str, taken: Collection[str]) -> str | None:
    """The parameter that the word almost surely means, of those that the type takes."""
    spelled = word.lower().replace("-", "_")
    synonym = next((name for name in _SYNONYMS[block].get(spelled, ()) if name in taken), None)
    near = synonym or nearest(f"{block}.params", word, taken)
    return None if near is None or _is_opposite(spelled, near) else near


def meant_type(word: str, names: Iterable[str]) -> str | None:
    """The type that the word almost surely means, in whatever case it is written."""
    known = {name.lower(): name for name in names}
    near = nearest("", word, known)
    return known[near] if near else None


def _members(node: Node | None) -> Iterator[Member]:
    """The members, each key once."""
    yield from {member.key: member for member in (node.members if node else ())}.values()


def _renamed(config: DsConfig, block: str, member: Member, name: str, release: Release) -> Fix | None:
    """Safe where the value is one for the other name; nothing is renamed where it is known to be none."""
    path = config.path(block, "params", member.key)
    holder = key_table("deepspeed").blocks[f"{block}.params"]
    key = holder.keys.get(name)
    if key is not None and member.node.value != "auto" and not fits(holder, key, member.node, release):
        return None
    return cure(
        f"Rename to {name}", edits.rename(config.document, path, name), safe=key is not None, makes=(*path[:-1], name)
    )


def _is_opposite(word: str, name: str) -> bool:
    left, right = word.split("_"), name.split("_")
    return any((one in left and other in right) or (other in left and one in right) for one, other in _OPPOSITES)
