"""Quantities as people write them, to numbers and back.

Bytes are integers, rates are floats per second. ``80GB`` is decimal and ``80GiB`` binary, as written;
output is GiB for memory and Gb/s for links.
"""

from __future__ import annotations

import math
import re

from zeroconf.errors import InputError

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
_SCALE = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_SCALE = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": TIB}
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Z/]*)\s*")
_LIMIT = 10**18


def _split(text: str, what: str, example: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        msg = f"{what} '{text}' is not a quantity; write it like {example}"
        raise InputError(msg)
    value = float(match[1])
    if not 0 < value < _LIMIT:
        msg = f"{what} '{text}' is out of range; write it like {example}"
        raise InputError(msg)
    return value, match[2]


def _bounded(value: float, text: str, what: str) -> float:
    if not 0 < value < _LIMIT:
        msg = f"{what} '{text}' is out of range"
        raise InputError(msg)
    return value


def release_text(release: tuple[int, ...]) -> str:
    """A release as people write it: 0.19.8."""
    return ".".join(map(str, release))


def counted(number: int, noun: str) -> str:
    """``1 rank``, ``2 ranks``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def parse_bytes(text: str, what: str = "size") -> int:
    """``512GiB``, ``80GB``, ``3.5TB`` to bytes."""
    value, unit = _split(text, what, "512GiB or 80GB")
    match = re.fullmatch(r"([kKmMgGtT]?)(i?)B?", unit)
    if match is None or not unit:
        msg = f"{what} '{text}' has no known unit; write it like 512GiB or 80GB"
        raise InputError(msg)
    scale = (_BINARY_SCALE if match[2] else _SCALE)[match[1].lower()]
    return int(_bounded(value * scale, text, what))


def parse_bytes_per_second(text: str, what: str = "rate") -> float:
    """``25Gbps``, ``25Gb/s`` (bits) or ``3GB/s``, ``3GiB/s`` (bytes) to bytes per second."""
    value, unit = _split(text, what, "25Gbps or 3GB/s")
    if match := re.fullmatch(r"([kKmMgGtT]?)(?:bps|b/s|bit/s|bits/s|bit)", unit):
        return _bounded(value * _SCALE[match[1].lower()] / 8, text, what)
    if match := re.fullmatch(r"([kKmMgGtT]?)(i?)(?:B/s|Bps)", unit):
        scale = (_BINARY_SCALE if match[2] else _SCALE)[match[1].lower()]
        return _bounded(value * scale, text, what)
    msg = f"{what} '{text}' has no known unit; write it like 25Gbps or 3GB/s"
    raise InputError(msg)


def parse_count(text: str, what: str = "count") -> int:
    """``7B``, ``350M``, ``1.5e9``-free plain counts to an integer."""
    value, unit = _split(text, what, "7B or 350M")
    scales = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
    if unit.lower() not in scales:
        msg = f"{what} '{text}' has no known unit; write it like 7B or 350M"
        raise InputError(msg)
    return round(_bounded(value * scales[unit.lower()], text, what))


def gigabytes(num_bytes: int) -> str:
    """Bytes that are sent, in decimal gigabytes as links are rated: ``3.22 GB``, ``1,980 GB``."""
    size = num_bytes / 1e9
    return f"{size:,.0f} GB" if size >= 100 else f"{size:.3g} GB"


def gib(num_bytes: float, digits: int = 1) -> str:
    """Bytes as GiB: ``35.9 GiB``."""
    return f"{num_bytes / GIB:.{digits}f} GiB"


def gigabits_per_second(bytes_per_second: float) -> str:
    """A rate as Gb/s: ``1,880 Gb/s``, ``0.88 Gb/s``."""
    rate = bytes_per_second * 8 / 1e9
    return f"{rate:,.0f} Gb/s" if rate >= 100 else f"{rate:.3g} Gb/s"


def seconds(value: float) -> str:
    """Seconds with three significant digits, in the unit that reads best: ``25 ms``, ``1.31 s``."""
    if value < 1e-3:
        return f"{value * 1e6:.3g} us"
    if value < 1:
        return f"{value * 1e3:.3g} ms"
    if value < 1000:
        return f"{value:.3g} s"
    return f"{value:,.0f} s"


def count(value: float) -> str:
    """A count in words of the field: ``8.03B``, ``350M``, ``512``."""
    for scale, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:.3g}{suffix}"
    return f"{value:g}"


def ceil_div(numerator: int, denominator: int) -> int:
    """Integer division, rounded up."""
    return -(-numerator // denominator)


def round_up(value: int, multiple: int) -> int:
    """The next multiple of ``multiple`` at or above ``value``."""
    return ceil_div(value, multiple) * multiple


def divisors(number: int) -> list[int]:
    """What divides a positive number, smallest first: 1, 2, 3, 4, 6, 12 for 12.

    Beyond 1e12, where a file holds nonsense, those up to a million and what they leave.
    """
    small = [one for one in range(1, min(math.isqrt(number), 10**6) + 1) if number % one == 0]
    return small + [number // one for one in reversed(small) if one * one != number]


def next_power_of_two(value: int) -> int:
    """The smallest power of two at or above ``value`` (1 for values below 1)."""
    return 1 << max(0, value - 1).bit_length()


def ranks_name(ranks_per_sample: int) -> str:
    """What multiplies the micro batch: the GPUs, unless several of them work on the same sequences."""
    return "GPUs" if ranks_per_sample == 1 else "data parallel ranks"
