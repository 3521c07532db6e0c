"""Whether a value is one that the reader of a key takes, by the key table."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from zeroconf.rules.facts import AUTO
from zeroconf.rules.text.quoted import is_checked, is_combined, is_quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroconf.document.node import Node
    from zeroconf.keys import Block, Key, Release

Kind = Literal["type", "range", "choice", "item", "fraction", "coerced"]

_LARGEST_INTEGER = 2**63  # beyond it pydantic takes no float for an integer
# fp16's own checks come before pydantic would count true as 1 (runtime/precision_config.py)
_NO_BOOLEAN = {"loss_scale", "loss_scale_window", "min_loss_scale"}
# autotuning/config.py, runtime/data_pipeline/config.py
_PARSED_WHILE_OFF = {
    *(("autotuning", name) for name in ("model_info", "results_dir", "exps_dir")),
    *(("data_efficiency.data_sampling.dynamic_batching", f"{side}_batch_size") for side in ("min", "max")),
}
# checks that older releases did not make
_CHECKED_SINCE = {
    ("fp16", "loss_scale"): (0, 18, 8),
    ("scheduler.params", "warmup_num_steps"): (0, 19, 3),
}


class Misfit(NamedTuple):
    """How a value fails its key: in what, and what the key takes instead, in words."""

    kind: Kind
    wanted: str


def fits(block: Block, key: Key, node: Node, release: Release) -> bool:
    """Whether the reader takes the value, be it "auto" where somebody fills it."""
    misfit = misfit_of(block, key, node, release)
    return (misfit is None or misfit.kind == "coerced") and (node.value != AUTO or bool(key.auto))


def misfit_of(block: Block, key: Key, node: Node, release: Release) -> Misfit | None:
    """How the value fails the key; None when it does not.

    Of what other rules are about ("auto", values in needless quotes, numbers that are not finite) nothing is said.
    """
    value: Any = {} if node.kind == "mapping" else node.plain()
    if value == AUTO or not key.type or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if any(_IS_OF[name](value) for name in key.type):
        return _value_misfit(value, block, key, release)
    if isinstance(value, str) and is_quoted(value, key):
        return None
    return _type_misfit(value, block, key)


def wanted(key: Key) -> str:
    """What the key takes, in words: "an integer of at least 1"."""
    if key.enum is not None:
        return "one of " + ", ".join(json.dumps(choice) for choice in _choices(key))
    kinds = [name for name in key.type if name != "null"] or ["null"]
    return " or ".join(_ARTICLES[name] for name in kinds) + _bounds(key)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_ARTICLES = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "string": "a text",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_IS_OF: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_PLURALS = {
    "integer": "integers",
    "number": "numbers",
    "boolean": "true and false",
    "string": "texts",
    "array": "lists",
    "object": "objects",
}


def _value_misfit(value: Any, block: Block, key: Key, release: Release) -> Misfit | None:
    """A value of a right type that is none of those that the key takes."""
    if _is_number(value):
        return _range_misfit(value, block, key, release)
    if isinstance(value, str) and key.enum is not None and not _is_choice(value, key):
        return Misfit("choice", wanted(key))
    if isinstance(value, str) and key.words is not None and value not in key.words:
        return Misfit("choice", f"{' or '.join(map(json.dumps, key.words))} as its only word")
    if isinstance(value, list) and key.items and not all(_IS_OF[key.items](item) for item in value):
        return Misfit("item", f"a list of {_PLURALS[key.items]}")
    return None


def _type_misfit(value: Any, block: Block, key: Key) -> Misfit:
    """A value of a wrong type; "coerced" where the reader takes it for one of the right type."""
    takes_number = "number" in key.type or "integer" in key.type
    if isinstance(value, bool) and takes_number and key.name not in _NO_BOOLEAN:
        return _range_misfit(int(value), block, key, None) or Misfit("coerced", str(int(value)))
    if is_boolean(key) and _counts_as_boolean(value, block, key):
        return Misfit("coerced", str(bool(value)).lower())
    if _is_number(value) and "integer" in key.type:
        return Misfit("fraction", wanted(key))
    return Misfit("type", wanted(key))


def is_boolean(key: Key) -> bool:
    """Whether the key takes true and false, and nothing else but perhaps null."""
    return "boolean" in key.type and set(key.type) <= {"boolean", "null"}


def is_parsed_while_off(block: Block, key: Key) -> bool:
    """Whether the parser stops on a value of a wrong type although the block says "enabled": false."""
    return (
        key.type in {("object",), ("null",)}
        or block.path == "torch_autocast"
        or is_checked(block, key)
        or (block.path, key.name) in _PARSED_WHILE_OFF
    )


def _counts_as_boolean(value: Any, block: Block, key: Key) -> bool:
    if block.auto == "kept" and not is_checked(block, key):
        return value is None or isinstance(value, str) or _is_number(value)
    return _is_number(value) and (value in {0, 1} or (isinstance(value, int) and is_combined(block, key)))


def _range_misfit(value: float, block: Block, key: Key, release: Release | None) -> Misfit | None:
    since = _CHECKED_SINCE.get((block.path, key.name))
    if since and release and release < since:
        return None
    inside = (
        (key.minimum is None or value >= key.minimum)
        and (key.maximum is None or value <= key.maximum)
        and (key.exclusive_minimum is None or value > key.exclusive_minimum)
        and (key.exclusive_maximum is None or value < key.exclusive_maximum)
        and (key.multiple_of is None or value % key.multiple_of == 0)
        and (key.enum is None or value in key.enum)
        and not (isinstance(value, float) and "integer" in key.type and abs(value) >= _LARGEST_INTEGER)
    )
    if value == 0 and key.not_zero:
        return Misfit("range", "any number but 0")
    return None if inside else Misfit("range", wanted(key))


def _bounds(key: Key) -> str:
    bounds = [
        f"of at least {key.minimum:g}" if key.minimum is not None and key.maximum is None else "",
        f"from {key.minimum:g} to {key.maximum:g}" if key.minimum is not None and key.maximum is not None else "",
        f"of at most {key.maximum:g}" if key.maximum is not None and key.minimum is None else "",
        f"above {key.exclusive_minimum:g}" if key.exclusive_minimum is not None else "",
        f"below {key.exclusive_maximum:g}" if key.exclusive_maximum is not None else "",
        f"divisible by {key.multiple_of:g}" if key.multiple_of is not None else "",
    ]
    return "".join(f" {bound}" for bound in bounds if bound)


def _is_choice(value: str, key: Key) -> bool:
    choices = key.enum or ()
    return value in choices or (key.any_case and value.lower() in {str(choice).lower() for choice in choices})


def _choices(key: Key) -> list[Any]:
    """The choices, each in one case only."""
    return list({str(choice).lower(): choice for choice in reversed(key.enum or ())}.values())[::-1]
