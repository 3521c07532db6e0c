"""Errors on files that the libraries accept: faults that nothing reports, each with what happens instead."""

from __future__ import annotations

SILENT: dict[str, str] = {
    "ZC240": "offload_param below stage 3: parsed, and the parameters stay on the GPU",
}

# what a library's error says -> the codes that name the same cause
CAUSES: dict[str, tuple[str, ...]] = {}
