"""Chromium without a window, and the report's pages. Without a browser the tests skip, but not in CI."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from zeroconf import api

AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
# what it would ask of the network by itself, apart from the page
_QUIET = ("disable-background-networking", "disable-component-update", "disable-sync", "disable-quic", "no-first-run")
_CASES = {
    "node": {"model": "llama-3.1-8b", "hardware": "8xA100-80GB"},
    "network": {"model": "llama-3.1-8b", "hardware": "4x4xA100-80GB", "network": "10gbe"},
    "nothing": {"model": "70B", "hardware": "2xA100-40GB"},
    "hopeless": {"model": "500B", "hardware": "1xRTX4090"},
    "offload": {"model": "llama-3.1-8b", "hardware": "1xRTX4090", "lora_rank": 16},
}
FILE = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 16,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
}


def _missing(what):
    if os.environ.get("CI"):
        pytest.fail(f"{what}: CI installs it (.ci/run)")
    pytest.skip(what)


@pytest.fixture(scope="session")
def browser():
    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")]
    path = next(filter(None, found), None)
    if path is None:
        _missing("no Chromium on PATH")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", *(f"--{name}" for name in _QUIET)]
        started = playwright.chromium.launch(executable_path=path, args=flags)
        yield started
        started.close()


@pytest.fixture(scope="session")
def axe():
    if not AXE.exists():
        _missing("no axe-core: npm ci --prefix tests/browser")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """By name: the facts, and the report's file; ``file`` is that of a user's configuration."""
    made = {}
    folder = tmp_path_factory.mktemp("reports")
    for name, options in _CASES.items():
        facts, _ = api.load_facts(options)
        path = folder / f"{name}.html"
        path.write_text(api.report(facts), encoding="utf-8")
        made[name] = (facts, path)
    facts, config, path = made["node"][0], folder / "mine.json", folder / "file.html"
    config.write_text(json.dumps(FILE), encoding="utf-8")
    path.write_text(api.report(facts, config), encoding="utf-8")
    return made | {"file": (facts, path)}


@pytest.fixture
def visit(browser, reports):
    """Opens a report in a page of its own, which must end without an error, a message or a request."""
    contexts, trouble = [], []

    def open_page(name="node", *, fragment="", path=None, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on("request", lambda request: None if request.url.startswith("file:") else trouble.append(request.url))
        page.goto((path or reports[name][1]).as_uri() + fragment)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []
