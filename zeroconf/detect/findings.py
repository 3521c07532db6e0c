"""What the probes found, as an inventory says it: values with their sources, and what could not be known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from zeroconf.errors import InputError
from zeroconf.inputs.inventory import Inventory
from zeroconf.units import GIB

SCHEMA = "zeroconf/detect/1"


@dataclass(slots=True)
class Findings:
    """An inventory in the making. Keys are those of the inventory, parts of one written ``nvme.read``.

    A key of ``sources`` without a value is known to be absent; a key of ``unknown`` may have an assumed value.
    """

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def know(self, key: str, value: Any, source: str) -> None:
        """A value and who told it."""
        self.values[key] = value
        self.sources[key] = source
        self.unknown.pop(key, None)

    def lack(self, key: str, why: str) -> None:
        """A key that nobody could tell; ``why`` names the cure."""
        self.unknown[key] = why

    def to_json(self) -> dict[str, Any]:
        """The inventory with what is known about it, as ``--hardware`` reads it once the GPU is known."""
        return {
            "schema": SCHEMA,
            **self.values,
            "sources": self.sources,
            "unknown": [{"key": key, "why": why} for key, why in self.unknown.items()],
            "notes": self.notes,
        }

    def inventory(self) -> Inventory:
        """The inventory.

        Raises:
            InputError: no GPU was found.
        """
        for key in ("gpus_per_node", "gpu"):
            if key not in self.values:
                why = self.unknown.get(key, "nobody says")
                msg = f"{why}; name the hardware, like --hardware 8xA100-80GB, or give an inventory file"
                raise InputError(msg)
        try:
            return Inventory.model_validate(self.to_json())
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            msg = f"what was detected is no inventory ({'.'.join(map(str, first['loc']))}: {first['msg'].lower()})"
            raise InputError(msg) from error


def size_text(num_bytes: int) -> str:
    """A memory or disk size, rounded down: ``1007.5GiB``."""
    return f"{num_bytes * 10 // GIB / 10:.1f}".removesuffix(".0") + "GiB"


def rate_text(bytes_per_second: float) -> str:
    """A rate with four digits: ``1.098GB/s``."""
    return f"{float(f'{bytes_per_second / 1e9:.4g}'):.9f}".rstrip("0").rstrip(".") + "GB/s"


def latency_text(seconds: float) -> str:
    """A latency in microseconds: ``23.4us``."""
    return f"{max(seconds * 1e6, 0.01):.2f}".rstrip("0").rstrip(".") + "us"
