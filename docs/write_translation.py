"""Copies the README's commands and outputs into its translation, block by block: ``python docs/write_translation.py``.

A test fails when they differ.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README, TRANSLATION = ROOT / "README.md", ROOT / "README.zh-CN.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text() -> str:
    """The translation with the README's blocks.

    Raises:
        ValueError: it has another number of blocks.
    """
    before, blocks = TRANSLATION.read_text(encoding="utf-8"), _BLOCK.finditer(README.read_text(encoding="utf-8"))
    pairs = dict(zip((block.start() for block in _BLOCK.finditer(before)), (block[0] for block in blocks), strict=True))
    return _BLOCK.sub(lambda block: pairs[block.start()], before)


if __name__ == "__main__":
    TRANSLATION.write_text(text(), encoding="utf-8")
