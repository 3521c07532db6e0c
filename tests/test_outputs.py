"""The pages show what the commands beside them really print, and every command on them is understood."""

from __future__ import annotations

import itertools
import re
import shlex

import pytest
from with_writers import ROOT, writer

from zeroconf.cli import cli

OUTPUTS = writer("write_outputs")
EVERY_PAGE = [*OUTPUTS.pages(), *sorted((ROOT / "docs/rules").glob("*.md"))]
SHOWN = {page: OUTPUTS.examples(page.read_text(encoding="utf-8")) for page in OUTPUTS.pages()}


def name(page):
    return page.relative_to(ROOT).as_posix()


def check(page, run, folder, *, launches):
    """Runs the examples of a page, in its order; those that launch only where they are asked for."""
    OUTPUTS.put_files(page.read_text(encoding="utf-8"), folder)
    for example in SHOWN[page]:
        if launches or not example.launches:
            _, out, err = run(*example.words)
            printed = (out or err).rstrip().splitlines()
            assert OUTPUTS.matches(example.output, printed), (
                f"run docs/write_outputs.py {name(page)}: {example.command}\n" + "\n".join(printed)
            )


@pytest.mark.parametrize("page", [page for page in SHOWN if any(not one.launches for one in SHOWN[page])], ids=name)
def test_shown_outputs_are_real(page, run, tmp_path):
    check(page, run, tmp_path, launches=False)


@pytest.mark.launch
@pytest.mark.parametrize("page", [page for page in SHOWN if any(one.launches for one in SHOWN[page])], ids=name)
def test_shown_dry_runs_are_real(page, run, tmp_path):
    check(page, run, tmp_path, launches=True)


def commands(page):
    """The zeroconf commands of a page's consoles and shell blocks, as words, whatever stands around them in a line."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for language, block in re.findall(r"^```(console|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if language == "sh" or line.startswith("$ "):
                yield from zeroconfs(line)


def zeroconfs(line):
    """What stands behind each ``zeroconf`` of a shell's line, up to the next operator."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    for operator, command in itertools.groupby(words, key=lambda word: set(word) <= set("&|;<>()")):
        said = [] if operator else list(command)
        at = next((index for index, word in enumerate(said) if re.fullmatch(r"([^=]*/)?zeroconf", word)), None)
        if at is not None:
            yield said[at + 1 :]


def test_commands_are_found_in_a_line():
    line = "C=/a/zeroconf srun .venv/bin/zeroconf detect -o a.yaml && zeroconf lint a.yaml > b.txt # zeroconf c"
    assert [*zeroconfs(line)] == [["detect", "-o", "a.yaml"], ["lint", "a.yaml"]]


@pytest.mark.parametrize("page", [page for page in EVERY_PAGE if [*commands(page)]], ids=name)
def test_the_commands_shown_are_understood(page):
    for command, *words in filter(None, commands(page)):  # a shell's completion has no words
        cli.commands[command].make_context(command, list(words))  # a usage error names the option


def test_what_is_not_run_says_why():
    text = "\n".join(page.read_text(encoding="utf-8") for page in EVERY_PAGE)
    reasons = re.findall(r"^<!-- not run: (.*) -->\n```console$", text, re.MULTILINE)
    assert len(reasons) == text.count("<!-- not run")
    assert all(len(reason.split()) >= 2 for reason in reasons)


@pytest.mark.parametrize(
    ("shown", "renewed"),
    [
        ([], ["a 1", "b 2", "c 3", "d 4"]),
        (["a 1", "b 2"], ["a 1", "b 2", "c 3", "d 4"]),
        (["a 9", "...", "c 8", "..."], ["a 1", "...", "c 3", "..."]),
        (["...", "c 8", "d 9"], ["...", "c 3", "d 4"]),
        (["...", "d 4"], ["...", "d 4"]),
        (["a 1", "...", "another", "..."], ["a 1", "b 2", "c 3", "d 4"]),
    ],
)
def test_an_output_is_renewed_as_it_was_cut(shown, renewed):
    printed = ["a 1", "b 2", "c 3", "d 4"]
    assert OUTPUTS.renewed(shown, printed) == renewed
    assert OUTPUTS.matches(renewed, printed)
