"""Takes the picture of docs/report.md: ``python docs/write_picture.py``, with Chromium and playwright."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from zeroconf import api

PICTURE = Path(__file__).with_name("report.png")
OPTIONS = {"model": "llama-3.1-8b", "hardware": "8xA100-80GB"}
SIZE = {"width": 1200, "height": 750}


def main() -> None:
    """Writes the page to a temporary folder, and its picture here."""
    facts, _ = api.load_facts(OPTIONS)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder, "report.html")
        page_file.write_text(api.report(facts), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(page_file.as_uri())
        page.wait_for_function("document.getAnimations().length === 0")
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
