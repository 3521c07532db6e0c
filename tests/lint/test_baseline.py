"""An earlier report hides what it knows, and nothing else."""

from __future__ import annotations

import json

import pytest
from lint_texts import BAD, GOOD

from zeroconf.rules.registry import Problem


def test_a_baseline_hides_what_it_knows(write, zeroconf):
    folder = write(**{"c/a.json": BAD, "c/b.json": GOOD})
    (folder / "known.json").write_text(zeroconf("lint", "c", "--format", "json")[1])
    moved = "\n\n" + BAD.replace("8,", '16,\n "steps_per_print": 5,')
    write(**{"c/a.json": moved, "c/b.json": BAD})
    code, out, _ = zeroconf("lint", "c", "--baseline", "known.json")
    assert code == 1
    assert out.startswith("c/b.json:1")
    assert "Not shown: 1 in the baseline.\n" in out
    assert zeroconf("lint", "./c/../c/a.json", "--baseline", "known.json")[0] == 0


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": "zeroconf/lint/2", "findings": []}',
                                     '{"schema": "zeroconf/lint/1", "findings": [1]}',
                                     '{"schema": "zeroconf/lint/1", "findings": 1}'])  # fmt: skip
def test_anything_else_is_no_baseline(write, zeroconf, content):
    write(**{"a.json": BAD, "known.json": content})
    code, _, err = zeroconf("lint", "a.json", "--baseline", "known.json")
    assert code == 2
    assert "not a report of" in err


def test_the_projects_baseline(write, zeroconf, monkeypatch):
    folder = write(**{"p/sub/a.json": BAD})
    monkeypatch.chdir(folder / "p")
    (folder / "p/known.json").write_text(zeroconf("lint", ".", "--format", "json")[1])
    write(**{"p/zeroconf.toml": '[lint]\nbaseline = "known.json"\n'})
    for place, argument in (("p", "sub/a.json"), ("p/sub", "a.json"), (".", "p")):
        monkeypatch.chdir(folder / place)
        assert zeroconf("lint", argument)[0] == 0
        assert zeroconf("lint", argument, "--no-baseline")[0] == 1


def refuses_stages(config):
    if config.stage:
        yield Problem(f"on line 1 DeepSpeed 0.19.8 refuses stage {config.stage}", ("zero_optimization", "stage"))


def test_another_wrong_value_is_new(write, zeroconf, make_rule):
    make_rule(refuses_stages)
    folder = write(**{"a.json": GOOD})
    (folder / "known.json").write_text(zeroconf("lint", "a.json", "--format", "json")[1])
    assert zeroconf("lint", "a.json", "--baseline", "known.json")[0] == 0
    write(**{"a.json": GOOD.replace("2}", "3}")})
    code, out, _ = zeroconf("lint", "a.json", "--baseline", "known.json")
    assert code == 1
    assert "refuses stage 3" in out
    assert "known.json" not in out


def test_another_line_or_release_is_not_new(write, zeroconf, make_rule):
    make_rule(refuses_stages)
    folder = write(**{"a.json": GOOD})
    known = zeroconf("lint", "a.json", "--format", "json")[1]
    (folder / "known.json").write_text(known.replace("0.19.8", "0.20").replace("line 1", "line 12"))
    assert zeroconf("lint", "a.json", "--baseline", "known.json")[0] == 0


def test_a_baseline_works_from_any_folder(write, zeroconf, monkeypatch):
    folder = write(**{"p/c/a.json": BAD, "p/ci/x": ""})
    monkeypatch.chdir(folder / "p")
    known = zeroconf("lint", "c", "--format", "json")[1]
    for place in ("known.json", "ci/known.json"):
        (folder / "p" / place).write_text(known)
    assert zeroconf("lint", "c", "--baseline", "ci/known.json")[0] == 0
    monkeypatch.chdir(folder / "p/c")
    assert zeroconf("lint", "a.json", "--baseline", "../known.json")[0] == 0
    monkeypatch.chdir(folder)
    assert zeroconf("lint", "p", "--baseline", "p/known.json")[0] == 0


def test_a_baseline_of_other_files_says_so(write, zeroconf):
    folder = write(**{"a.json": BAD, "b.json": BAD, "c.json": GOOD})
    (folder / "known.json").write_text(zeroconf("lint", "a.json", "--format", "json")[1])
    note = "The baseline known.json has no finding in any of these files: "
    code, out, _ = zeroconf("lint", "b.json", "--baseline", "known.json")
    assert code == 1
    assert note in out
    assert note not in zeroconf("lint", "a.json", "b.json", "--baseline", "known.json")[1]
    assert note not in zeroconf("lint", "c.json", "--baseline", "known.json")[1]
    (folder / "known.json").write_text(json.dumps({"schema": "zeroconf/lint/1", "findings": []}))
    assert note not in zeroconf("lint", "b.json", "--baseline", "known.json")[1]
