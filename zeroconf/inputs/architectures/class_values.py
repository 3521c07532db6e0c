"""What Transformers' configuration classes hold where a file leaves a key out (schemas/write_class_values.py)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

DATA: Final = Path(__file__).parent.parent / "data" / "class_values.json"


@cache
def _classes() -> dict[str, Any]:
    classes: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return classes


def release() -> str:
    """The Transformers release that the values are of."""
    return str(_classes()["release"])


def class_values(model_type: str) -> Mapping[str, object]:
    """The values of a model type's class; of its language part where it has one, none where it is not known."""
    values: Mapping[str, object] = _classes().get(model_type, {}) if model_type != "release" else {}
    return values
