"""The command: which files, whose settings, what is known already, and the exit codes."""

from __future__ import annotations

import json
import os
import re

import pytest
from lint_texts import BAD, GOOD

SUPPRESSED = BAD.replace("}}}", '}}, "_zeroconf": {"ignore": {"ZC240": "a reason"}}}')


def paths(report):
    return [one["path"] for one in json.loads(report)["findings"]]


# --- files ---------------------------------------------------------------------------------------


def test_exit_codes(write, zeroconf):
    write(**{"bad.json": BAD, "good.json": GOOD})
    assert zeroconf("lint", "good.json") == (0, "No problems in 1 file.\n", "")
    code, out, err = zeroconf("lint", "bad.json", "good.json")
    assert (code, err) == (1, "")
    assert out.startswith("bad.json:1:59: error ZC240 [offload-param-below-stage-3] ")
    assert out.endswith(
        "Found 1 error in 1 of 2 files.\n"
        "1 fixable with --fix --unsafe-fixes.\n"
        "Why, with examples: zeroconf rule ZC240\n"
    )


def test_a_file_that_cannot_be_read_does_not_hide_the_others(write, zeroconf):
    write(**{"bad.json": BAD})
    code, out, err = zeroconf("lint", "missing.json", "bad.json/below", "bad.json")
    assert code == 2
    assert "Found 1 error in 1 file." in out
    assert err.splitlines() == [
        "error: missing.json: there is no such file",
        "error: bad.json/below: there is no such file",
    ]


def test_a_folder_is_searched(write, zeroconf):
    write(
        **{
            "c/b.json": BAD,
            "c/a/x.json": BAD,
            "c/.hidden/x.json": BAD,
            "c/node_modules/x.json": BAD,
            "c/.x.json": BAD,
            "c/x.txt": BAD,
            "c/notes.json": "[1, 2]",
        }
    )
    code, out, _ = zeroconf("lint", "c", "c/b.json", "--format", "json")
    assert code == 1
    assert paths(out) == ["c/b.json", "c/a/x.json"]


def test_names_in_the_current_folder_are_short(write, zeroconf):
    write(**{"c/b.json": BAD})
    assert paths(zeroconf("lint", ".", "--format", "json")[1]) == ["c/b.json"]


def test_an_empty_folder_is_no_failure(write, zeroconf):
    write().joinpath("empty").mkdir()
    assert zeroconf("lint", "empty") == (0, "No configuration found.\n", "")


def test_what_is_no_configuration(write, zeroconf):
    write(**{"other.json": '{"model_type": "llama"}'})
    code, out, _ = zeroconf("lint", "other.json")
    assert code == 0
    assert "Skipped other.json: " in out
    assert zeroconf("lint", "--sniff", "other.json") == (0, "No configuration found.\n", "")


def test_our_own_reports_are_no_configuration(write, zeroconf):
    folder = write(**{"c/bad.json": BAD})
    for output_format in ("json", "sarif"):
        (folder / f"c/{output_format}.json").write_text(zeroconf("lint", "c", "--format", output_format)[1])
    assert paths(zeroconf("lint", "c", "--format", "json")[1]) == ["c/bad.json"]


def test_standard_input(write, zeroconf):
    write()
    assert zeroconf("lint", "-", stdin=BAD)[1].startswith("<stdin>:1:59: error ")
    assert zeroconf("lint", "-", "--stdin-filename", "x/ds.json", stdin=BAD)[1].startswith("x/ds.json:1:59: error ")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"{", b"[" * 100_000, b"\x00" * 100, b'"\\ud800"'])
@pytest.mark.parametrize("output_format", ["text", "concise", "json", "sarif", "github"])
def test_any_content_is_no_traceback(write, zeroconf, content, output_format):
    write(**{"a.json": content})
    code, out, err = zeroconf("lint", "a.json", "--format", output_format)
    assert code in {0, 1}
    assert err == ""
    if output_format in {"json", "sarif"}:
        json.loads(out)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("a.json", "--select", "ZC9"),
        ("a.json", "--ignore", "nothing"),
        ("a.json", "--fail-on", "never"),
        ("a.json", "--format", "xml"),
        ("a.json", "--diff", "--format", "json"),
        ("a.json", "--baseline", "missing.json"),
        ("a.json", "--baseline", "a.json"),
        ("a.json", "--deepspeed-version", "0.8.3"),
        ("a.json", "--deepspeed-version", "new"),
        ("a.json", "--python", "/no/python"),
        ("a.json", "--for", "me"),
        ("a.json", "--select", ""),
        ("a.json", "--select", "ZC2", "--select", " , "),
        ("a.json", "--ignore", ""),
        ("a.json", "--deepspeed-version", ""),
        ("a.json", "--deepspeed-version", "1e5"),
        ("a.json", "--accelerate-version", ""),
        ("a.json", "--python", ""),
        ("a.json", "--unsafe-fixes"),
        ("a.json", "--baseline", ""),
        ("a.json", "--baseline", "known.json", "--no-baseline"),
        ("-", "--stdin-filename", ""),
    ],
)
def test_misuse_is_one_sentence(write, zeroconf, arguments):
    write(**{"a.json": GOOD, "known.json": '{"schema": "zeroconf/lint/1", "findings": []}'})
    code, out, err = zeroconf("lint", *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 or err.startswith("Usage")
    assert "Traceback" not in err


def test_a_text_that_cannot_be_read_says_that_checks_wait(write, zeroconf):
    write(**{"a.json": BAD.replace(",", "", 1), "b.yaml": "zero_optimization: {stage: 2", "bad.json": BAD})
    code, out, _ = zeroconf("lint", "a.json", "b.yaml", "bad.json")
    assert code == 1
    assert out.count("Further checks wait") == 1
    assert "\nFurther checks wait until the text can be read: a.json, b.yaml.\n" in out
    assert "Further checks" not in zeroconf("lint", "bad.json")[1]


def test_concise_is_a_line_for_each_finding(write, zeroconf):
    write(**{"bad.json": BAD, "good.json": GOOD})
    code, out, err = zeroconf("lint", "bad.json", "good.json", "--format", "concise")
    assert (code, err) == (1, "")
    assert re.fullmatch(r"bad\.json:1:59: ZC240 error [^\n]+\n", out)
    assert zeroconf("lint", "good.json", "--format", "concise") == (0, "", "")


# --- selection -----------------------------------------------------------------------------------


def test_select_ignore_and_fail_on(write, zeroconf, make_rule):
    def check(config):
        from zeroconf.rules.registry import Problem  # noqa: PLC0415

        yield Problem("hm", (), severity="warning" if config.stage else "info")

    make_rule(check, severity="error")
    write(**{"a.json": GOOD, "bad.json": BAD})
    assert zeroconf("lint", "a.json")[0] == 0
    assert zeroconf("lint", "a.json", "--fail-on", "warning")[0] == 1
    assert zeroconf("lint", "a.json", "--fail-on", "warning", "--ignore", "ZC901")[0] == 0
    assert zeroconf("lint", "bad.json", "--select", "ZC9")[:2] == zeroconf("lint", "bad.json", "--ignore", "ZC240")[:2]
    assert zeroconf("lint", "bad.json", "--ignore", "ZC2,ZC9")[1] == "No problems in 1 file.\n"


def test_old_releases_are_checked_against(write, zeroconf, make_rule):
    def check(releases, reader):
        from zeroconf.rules.registry import Problem  # noqa: PLC0415

        yield Problem(f"{releases} {reader}")

    make_rule(check, severity="info")
    write(**{"a.json": GOOD})
    out = zeroconf(
        "lint", "a.json", "--deepspeed-version", "0.9", "--accelerate-version", "0.20.3", "--for", "trainer"
    )[1]
    assert "deepspeed=(0, 9, 0), accelerate=(0, 20, 3), stated=True" in out
    assert "name='trainer', stated=True" in out
    assert "stated=False" in zeroconf("lint", "a.json")[1]
    code, out, _ = zeroconf("lint", "a.json", "--deepspeed-version", "99.1")
    assert code == 0
    assert "Checked against DeepSpeed 99.1.0 and Accelerate 1.15.0.\nDeepSpeed is newer than 0.19.8, the newest" in out


def test_rules_without_their_facts_are_named(write, zeroconf, make_rule):
    def check(cluster):
        yield from cluster

    make_rule(check)
    write(**{"a.json": GOOD, "b.json": GOOD})
    assert "Rules not checked: ZC901 (need --hardware).\n" in zeroconf("lint", "a.json", "b.json")[1]
    skipped = json.loads(zeroconf("lint", "a.json", "--format", "json")[1])["skipped"]
    assert skipped == [{"path": "a.json", "code": "ZC901", "needs": "--hardware"}]


# --- suppression ---------------------------------------------------------------------------------


def test_ignored_findings_are_counted(write, zeroconf):
    write(**{"a.json": SUPPRESSED})
    assert zeroconf("lint", "a.json") == (0, "No problems in 1 file.\nNot shown: 1 ignored with a reason.\n", "")


# --- the project file ----------------------------------------------------------------------------

PROJECT = """
for = "trainer"
[lint]
select = ["ZC2"]
fail-on = "info"
per-file-ignores = { "old/**/*.json" = { ZC240 = "to be removed" }, "x.json" = { ZC2 = "generated" } }
"""


@pytest.mark.parametrize("name", ["zeroconf.toml", "pyproject.toml"])
def test_the_nearest_project_file_holds(write, zeroconf, name):
    project = (
        PROJECT if name == "zeroconf.toml" else "[tool.zeroconf]" + PROJECT.replace("[lint]", "[tool.zeroconf.lint]")
    )
    files = ["p/a.json", "p/old/deep/a.json", "p/new/x.json", "a.json"]
    write(**dict.fromkeys(files, BAD), **{f"p/{name}": project})
    code, out, _ = zeroconf("lint", *files, "--format", "json")
    assert code == 1
    assert paths(out) == ["p/a.json", "a.json"]
    assert "3 ignored" not in zeroconf("lint", "a.json")[1]
    assert "Not shown: 2 ignored with a reason." in zeroconf("lint", "p")[1]


def test_a_project_file_of_another_tool_is_passed_over(write, zeroconf):
    write(**{"p/pyproject.toml": "not TOML at all", "zeroconf.toml": '[lint]\nignore = ["ZC240"]\n', "p/a.json": BAD})
    assert zeroconf("lint", "p/a.json")[0] == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[lint]\nselct = []\n", "key 'lint.selct' is not known (nearest: select"),
        ('[lint]\nselect = "ZC1"\n', "'lint.select' must be a list of strings"),
        ('[lint]\nselect = ["ZC9"]\n', "'lint.select': there is no rule 'ZC9'"),
        ("[lint]\nselect = []\n", "'lint.select': it lists no rule"),
        ('[lint]\nselect = [""]\n', "'lint.select': '' names no rule"),
        ('[lint]\nignore = ["ZC9"]\n', "'lint.ignore': there is no rule 'ZC9'"),
        ('[lint.per-file-ignores]\n"*" = { ZC9 = "x" }\n', "'lint.per-file-ignores': there is no rule 'ZC9'"),
        ('deepspeed-version = "1e5"\n', "'deepspeed-version': deepspeed version '1e5' is not a release"),
        ('accelerate-version = ""\n', "'accelerate-version': accelerate version is empty"),
        ('python = "/no/python"\n', "'python': python '/no/python' is not a Python interpreter"),
        ('[lint]\nfail-on = "never"\n', "'lint.fail-on' must be one of error, warning, info"),
        ('[lint.per-file-ignores]\n"*" = ["ZC240"]\n', "every reason given"),
        ('[lint.per-file-ignores]\n"*" = { ZC240 = " " }\n', "every reason given"),
        ('[lint]\nbaseline = "missing.json"\n', "'lint.baseline': "),
        ("lint = 1\n", "'lint' must be a table"),
        ("[lint\n", "not TOML"),
    ],
)
def test_a_wrong_project_file_is_one_sentence(write, zeroconf, text, told):
    write(**{"a.json": GOOD, "zeroconf.toml": text})
    code, out, err = zeroconf("lint", "a.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ")
    assert "/zeroconf.toml:" in err
    assert told in err


def test_a_project_file_that_cannot_be_read_is_not_passed_over(write, zeroconf):
    folder = write(**{"a.json": GOOD})
    place = folder / "zeroconf.toml"
    place.mkdir()
    assert zeroconf("lint", "a.json")[::2] == (2, f"error: {place}: {told_of('a folder')}")
    place.rmdir()
    place.symlink_to("nowhere")
    assert zeroconf("lint", "a.json")[::2] == (2, f"error: {place}: {told_of('a link to no file')}")
    place.unlink()
    os.mkfifo(place)
    assert zeroconf("lint", "a.json")[::2] == (2, f"error: {place}: {told_of('no regular file')}")
    place.unlink()
    os.mkfifo(folder / "pyproject.toml")
    assert zeroconf("lint", "a.json")[0] == 0


def told_of(what):
    return f"{what}, but the project's settings would stand in it; mend it, or remove it\n"


def test_a_pattern_that_matches_nothing_is_noted(write, zeroconf):
    write(**{"zeroconf.toml": '[lint.per-file-ignores]\n"{a,b}.json" = { ZC240 = "x" }\n', "a.json": BAD})
    code, out, _ = zeroconf("lint", "a.json")
    assert code == 1
    assert "zeroconf.toml: '{a,b}.json' matches no file: braces stand for themselves" in out


@pytest.mark.parametrize(
    ("named", "checked"), [("0.17.7", "0.17.6"), ("0.17.6", None), ("0.13.2", None), ("0.16.99", "0.16.9")]
)
def test_a_release_that_was_never_made_is_checked_as_the_one_before(write, zeroconf, named, checked):
    write(**{"a.json": BAD})
    out = zeroconf("lint", "a.json", "--deepspeed-version", named)[1]
    told = f"DeepSpeed {named} is not a release that zeroconf knows; checked as {checked}.\n"
    assert (told in out) == (checked is not None)
    assert f"Checked against DeepSpeed {checked or named} " in out
