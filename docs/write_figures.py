"""Writes measured and computed figures into the pages: ``python docs/write_figures.py``.

They stand between ``<!-- figures: NAME -->`` and ``<!-- /figures -->``, and come from the newest file of their
benchmark in ``benchmarks/results``, or from the public functions. A test fails when they are stale.
"""

from __future__ import annotations

import re
from pathlib import Path

from figures_accuracy import headline, headline_chinese, ladder
from figures_dry_run import checked, releases
from figures_speed import dry_run_speed, lint_speed, search_speed, smoke_overhead
from figures_textbook import textbook

ROOT = Path(__file__).parent.parent
FIGURES = {
    "headline": headline,
    "headline-chinese": headline_chinese,
    "ladder": ladder,
    "textbook": textbook,
    "dry-run-releases": releases,
    "dry-run-checked": checked,
    "lint-speed": lint_speed,
    "search-speed": search_speed,
    "dry-run-speed": dry_run_speed,
    "smoke-overhead": smoke_overhead,
}
_REGION = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- /figures -->\n)", re.DOTALL)


def texts() -> dict[Path, str]:
    """The pages with figures, as they should be."""
    pages = [*ROOT.glob("README*.md"), *(ROOT / "docs").glob("*.md")]
    before = {page: page.read_text(encoding="utf-8") for page in pages}
    return {
        page: _REGION.sub(lambda found: found[1] + FIGURES[found[2]]() + found[3], text)
        for page, text in before.items()
        if "<!-- figures: " in text
    }


if __name__ == "__main__":
    for page, text in texts().items():
        page.write_text(text, encoding="utf-8")
