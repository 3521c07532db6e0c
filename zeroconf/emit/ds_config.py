"""A plan as ``ds_config.json``, for the Hugging Face Trainer, Accelerate or plain DeepSpeed."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from zeroconf.emit.blocks import base_config
from zeroconf.emit.notes import key_notes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroconf.types import Facts, Plan, Reason

__all__ = ["ds_config", "key_notes", "to_json"]


def ds_config(
    facts: Facts,
    plan: Plan,
    reasons: Sequence[Reason] = (),
    *,
    explain: bool = False,
    ignore: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The configuration that ``facts.reader`` reads; ``"auto"`` only where the Trainer fills it.

    ``explain`` adds ``"_zeroconf": {"reasons": [...]}``: the plan's ``reasons``, then a note for each key that
    they do not name. It is a list because Accelerate walks dictionaries and splits their keys at dots. ``ignore``
    adds ``"_zeroconf": {"ignore": ...}``: rules of the linter, each with the reason why it does not apply.

    Raises:
        InputError: the plan holds something that is not read at its stage, or NVMe offload has no path.
    """
    config = base_config(facts, plan)
    ours: dict[str, Any] = {"ignore": dict(ignore)} if ignore else {}
    if explain:
        named = {reason.key.rsplit(".", 1)[-1] for reason in reasons}
        notes = [note for note in key_notes(facts, plan) if note.key.rsplit(".", 1)[-1] not in named]
        ours["reasons"] = [asdict(reason) for reason in (*reasons, *notes)]
    return {**config, "_zeroconf": ours} if ours else config


def to_json(config: Mapping[str, Any]) -> str:
    """JSON text in the given key order, two spaces deep, with a final newline.

    Strict JSON, ASCII only: DeepSpeed opens the file in the locale's encoding.
    """
    return json.dumps(config, indent=2, allow_nan=False) + "\n"
