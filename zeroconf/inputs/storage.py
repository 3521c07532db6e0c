"""``--host-memory`` and ``--nvme``."""

from __future__ import annotations

import re

from zeroconf.errors import InputError
from zeroconf.inputs.text import clean, shown
from zeroconf.types import Nvme
from zeroconf.units import parse_bytes, parse_bytes_per_second

# One drive's share of DeepNVMe's measurement on four Gen4 drives, 10 GB/s read and 5 write
# (DeepSpeed, blogs/deepnvme/08-2024).
DRIVE_READ_BYTES_PER_SECOND = 2.5e9
DRIVE_WRITE_BYTES_PER_SECOND = 1.25e9
MEASURED_DRIVES = 4
INSTANCE_PATH = "/local_nvme"

_SMALLEST_BYTES = 2**30
_LARGEST_BYTES = 10**16
_SIZE = re.compile(r"[\d.]+\s*[kKmMgGtT]i?B?")


def read_size(text: str, what: str) -> int:
    """A memory or disk size in bytes, 1 GiB to 10 PB.

    Raises:
        InputError: not a size, or out of range.
    """
    num_bytes = parse_bytes(clean(text, what), what)
    if not _SMALLEST_BYTES <= num_bytes <= _LARGEST_BYTES:
        msg = f"{what} '{shown(text)}' is out of range; write it like 512GiB or 3.5TB"
        raise InputError(msg)
    return num_bytes


def _rate(text: str | None, what: str, default: float) -> float:
    if text is None:
        return default
    rate = parse_bytes_per_second(clean(text, what), what)
    if not 1e6 <= rate <= 1e13:
        msg = f"{what} '{shown(text)}' is out of range; write it like 3GB/s"
        raise InputError(msg)
    return rate


def make_nvme(path: str, capacity: str, read: str | None, write: str | None) -> tuple[Nvme, tuple[str, ...]]:
    """An Nvme from its parts as text, and the rates that were assumed.

    Raises:
        InputError: a size or rate that is none.
    """
    nvme = Nvme(
        path=clean(path, "NVMe path"),
        capacity_bytes=read_size(capacity, "NVMe capacity"),
        read_bytes_per_second=_rate(read, "NVMe read rate", DRIVE_READ_BYTES_PER_SECOND),
        write_bytes_per_second=_rate(write, "NVMe write rate", DRIVE_WRITE_BYTES_PER_SECOND),
    )
    if read is not None and write is not None:
        return nvme, ()
    note = (
        f"NVMe at {nvme.read_bytes_per_second / 1e9:g} GB/s read and {nvme.write_bytes_per_second / 1e9:g} GB/s write"
        " (assumed where not given: one Gen4 drive)"
    )
    return nvme, (note,)


def read_nvme(text: str) -> tuple[Nvme, tuple[str, ...]]:
    """``PATH:CAPACITY[:READ[:WRITE]]``; the path itself may hold colons.

    Raises:
        InputError: not of that form.
    """
    text = clean(text, "NVMe")
    parts = text.split(":")
    for num_rates in (0, 1, 2):
        index = len(parts) - 1 - num_rates
        if index >= 1 and _SIZE.fullmatch(parts[index].strip()):
            rates = [*parts[index + 1 :], *[None] * (2 - num_rates)]
            return make_nvme(":".join(parts[:index]), parts[index].strip(), rates[0], rates[1])
    msg = f"NVMe '{shown(text)}' is not PATH:CAPACITY[:READ:WRITE]; write it like /local_nvme:3.5TB:3GB/s:1.5GB/s"
    raise InputError(msg)
