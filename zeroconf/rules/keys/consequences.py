"""What becomes of a value that its key does not take: how bad it is, and in words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zeroconf.rules.idle import idle, may_be_set_over
from zeroconf.rules.keys.fits import is_boolean, is_parsed_while_off
from zeroconf.rules.text.quoted import is_checked
from zeroconf.units import release_text

if TYPE_CHECKING:
    from zeroconf.document.node import Node
    from zeroconf.keys import Release
    from zeroconf.rules.facts import DsConfig, Reader
    from zeroconf.rules.keys.walk import Seen
    from zeroconf.rules.registry import Severity

_BATCH = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


def shown(node: Node) -> str:
    """A value as it goes into a message."""
    if node.kind == "mapping":
        return "an object"
    text = json.dumps(node.plain())
    return text if len(text) <= 60 else text[:57] + "..."


def severity_of(config: DsConfig, seen: Seen, reader: Reader) -> Severity | None:
    """Less than the rule's own where nothing computes with the value: a dead key, or a feature that is off."""
    if _is_taken_otherwise(seen):
        return "info" if seen.member.node.value is None else "warning"
    if may_be_set_over(config, reader, seen.path):
        return "warning"
    if seen.block.auto == "dropped" or is_parsed_while_off(seen.block, seen.key):
        return None
    if seen.key.dead:
        return "info"
    return "warning" if idle(config, seen.block, seen.path) else None


def consequence(config: DsConfig, seen: Seen, release: Release) -> str:
    """What DeepSpeed does with the value."""
    key, engine = seen.key, f"DeepSpeed {release_text(release)}"
    if _is_taken_otherwise(seen):
        return f'{engine} runs it as "{key.otherwise}"'
    if seen.block.auto == "dropped" or key.block is not None or is_checked(seen.block, key):
        return f"{engine} refuses the file"
    if is_boolean(key):
        return "anything that is not empty counts as true"
    unread = idle(config, seen.block, seen.path)
    if unread and not is_parsed_while_off(seen.block, key):
        return f"nothing reads it: {unread}"
    if seen.block.unknown == "open":
        return f"{engine} hands it on as it is, and building the {seen.block.path.partition('.')[0]} fails"
    return f"{engine} {'stops on it' if key.enum is not None else 'does not check it and fails where it uses it'}"


def of_fraction(config: DsConfig, seen: Seen, reader: Reader, release: Release) -> tuple[Severity | None, str]:
    """What a fraction does in the place of an integer: who refuses it, or computes with it."""
    if seen.shown == "flops_profiler.profile_step" and not idle(config, seen.block, seen.path):
        return None, "no step has that number, and nothing is profiled"
    if seen.shown == "gradient_accumulation_steps":
        return None, "DeepSpeed divides the gradients by it and adds up those of another number of micro steps"
    is_product = seen.shown == "train_batch_size" and any(_is_fraction(config, name) for name in _BATCH)
    if seen.shown == "train_batch_size" and not is_product:
        return None, "DeepSpeed refuses the file: no product of whole numbers is a fraction"
    if seen.shown == "train_micro_batch_size_per_gpu" or is_product:
        if reader.stated and reader.name == "trainer":
            return None, "the Trainer compares it with its own integer and stops"
        return "warning", "DeepSpeed computes with it, but a DataLoader refuses it: there is no part of a sample"
    return severity_of(config, seen, reader), consequence(config, seen, release)


def needs_no_point(config: DsConfig, seen: Seen) -> bool:
    """Whether 2.0 is no integer to the key's reader: a check of the type, a slice, a range or a compiled extension."""
    if seen.block.path in {"aio", "expert_parallel"}:
        return "integer" in seen.key.type and seen.key.name not in {"top_k", "num_expert_groups", "num_limited_groups"}
    if seen.shown == "sequence_parallel_size":
        return config.has("data_parallel_size")
    return seen.shown in {
        *("data_parallel_size", "tensor_parallel.autotp_size"),
        *("flops_profiler.module_depth", "flops_profiler.top_modules"),
    }


def _is_taken_otherwise(seen: Seen) -> bool:
    """Whether the reader takes another word for what is no choice; a list or an object it cannot compare."""
    return seen.key.otherwise is not None and seen.member.node.kind == "scalar"


def _is_fraction(config: DsConfig, name: str) -> bool:
    value = config.number(name)
    return isinstance(value, float) and not value.is_integer()
