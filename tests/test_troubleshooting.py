"""The messages of docs/troubleshooting.md are those of the libraries, and the rules that it names exist."""

from __future__ import annotations

import re
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest
from with_writers import ROOT

from zeroconf.rules import RULES

PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
INSTALLED = Path(sysconfig.get_path("purelib"))
RELEASES = {"deepspeed": "0.19.8", "accelerate": "1.15.0", "transformers": "5.24.0", "torch": "2.13.0"}
PARAGRAPHS = re.sub(r"(?<!\n)\n(?!\n)", " ", PAGE)
ENTRIES = re.findall(r"^### (?:`` (.*) ``|`(.*)`)\n\n\*(\w.*?)\.\*\s", PARAGRAPHS, re.MULTILINE)
FROM_FILES = [(spaced or plain, source) for spaced, plain, source in ENTRIES if "/" in source]


def installed(name):
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def text_of(pattern):
    """The sources of a module, with the pieces of each string joined."""
    text = "".join(path.read_bytes().decode("utf-8", "ignore") for path in INSTALLED.glob(pattern))
    return re.sub(r"""(["'])\s*\\?\n\s*f?\1""", "", text).replace("\\'", "'")


def test_every_entry_is_read():
    assert len(ENTRIES) + PAGE.count("### No message") == PAGE.count("\n### ")
    assert len(FROM_FILES) >= 50


@pytest.mark.skipif(
    any(installed(name) != release for name, release in RELEASES.items()), reason="the messages are other releases'"
)
@pytest.mark.parametrize(("message", "source"), FROM_FILES, ids=[message[:40] for message, _ in FROM_FILES])
def test_the_message_is_the_librarys(message, source):
    path, *written_as = re.findall(r"`([^`]+)`", source)
    text = text_of(path)
    for piece in (part.strip() for part in (written_as or [message])[0].split("...")):
        assert piece in text


def test_the_rules_named_exist():
    named = set(re.findall(r"ZC\d{3}", PAGE))
    assert named <= set(RULES)
    assert len(named) >= 60


def test_every_issue_has_its_address():
    used = set(re.findall(r"\[([\w-]+#\d+)\](?![:(])", PAGE))
    assert used == set(re.findall(r"^\[([\w-]+#\d+)\]: https://github\.com/\S+/issues/\d+$", PAGE, re.MULTILINE))
