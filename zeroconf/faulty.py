"""Releases of DeepSpeed that compute something wrongly: what the linter warns of, and the search avoids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from zeroconf.units import release_text

if TYPE_CHECKING:
    from zeroconf.keys import Release


class Span(NamedTuple):
    """Releases from the first to the last one; ``since`` is empty where the first has no number here."""

    since: Release
    until: Release

    def __contains__(self, release: object) -> bool:
        return isinstance(release, tuple) and self.since <= release <= self.until

    def __str__(self) -> str:
        """``0.17.6 to 0.18.2``, or ``up to 0.18.2``."""
        last = release_text(self.until)
        return f"{release_text(self.since)} to {last}" if self.since else f"up to {last}"


# zero_hpz_partition_size: DeepSpeed#7606, fixed by DeepSpeed#7707 (ZC601)
HPZ_STALE: Final = Span((), (0, 18, 2))
# overlap_comm at stages 1 and 2: DeepSpeed#7188, DeepSpeed#7965 (ZC602)
OVERLAP_RACES: Final = Span((), (0, 18, 9))
# stage 2: DeepSpeed#7718, trl#4540 (ZC603)
STAGE_2_GRADIENTS_WRONG: Final = Span((0, 17, 6), (0, 18, 2))
# bf16.check_grad_overflow is read, and off unless said: DeepSpeed#8035 (ZC611)
BF16_OVERFLOW_UNCHECKED: Final = Span((0, 17, 1), (0, 19, 2))
# stage 1 in bf16 with fp32 accumulation: DeepSpeed#7665, DeepSpeed#7985 (ZC605)
LAST_MICRO_BATCH_LOST: Final = Span((0, 18, 3), (0, 18, 9))
