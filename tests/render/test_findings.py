"""Each format of the same findings, on files that are hard to show."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroconf.document.document import Document
from zeroconf.document.edits import Edit, Fix
from zeroconf.lint.document import Suppressed
from zeroconf.lint.run import Report
from zeroconf.render.diff import unified_diff
from zeroconf.render.excerpt import cells, excerpt
from zeroconf.render.findings_json import findings_json
from zeroconf.render.findings_text import findings_text
from zeroconf.render.github import findings_github
from zeroconf.render.sarif import findings_sarif, uri
from zeroconf.resources import data_path
from zeroconf.rules import RULES
from zeroconf.rules.finding import Finding, Skipped

SARIF_SCHEMA = json.loads((Path(__file__).parent.parent / "data/sarif-schema-2.1.0.json").read_bytes())
OFFLOAD, UNUSED = RULES["ZC240"], RULES["ZC032"]


def found(text, part, *, path="a.json", rule=OFFLOAD, message="a message", severity="error", fix=None):
    """A finding at the first place of a part of a text."""
    document = Document(path, text, "json", "ds_config")
    start = text.index(part)
    return Finding(rule, document, severity, message, (part,), start, start + len(part), fix)


# --- the line and its mark -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "part", "line", "marks"),
    [
        ("{\n\t\tkey: 1\n}", "key", "        key: 1", "        ^^^"),
        ('{"日本": "x", key: 1}', "key", '{"日本": "x", key: 1}', " " * 14 + "^^^"),
        ('{"日本": 1}', "日本", '{"日本": 1}', "  ^^^^"),
        ("ab\x1b[31mkey\x07", "key", "ab?[31mkey?", "       ^^^"),
        ("{\r\n  key\r\n}", "key", "  key", "  ^^^"),
        ("one\rkey\rtwo", "key", "key", "^^^"),
        ("{one\ntwo}", "one\ntwo", "{one", " ^^^"),
        ("e\u0301 key", "key", "e\u0301 key", "  ^^^"),
    ],
)
def test_a_line_and_its_mark(text, part, line, marks):
    start = text.index(part)
    assert excerpt(Document("a", text, "json", "ds_config"), start, start + len(part)) == (line, marks)


def test_a_long_line_is_cut_around_the_place():
    text = "a" * 500 + "key" + "b" * 500
    line, marks = excerpt(Document("a", text, "json", "ds_config"), 500, 503)
    assert line == "..." + "a" * 30 + "key" + "b" * 67 + "..."
    assert line[marks.index("^") : len(marks)] == "key"


def test_nothing_to_mark_is_marked_at_its_place():
    assert excerpt(Document("a", "", "json", "ds_config"), 0, 0) == ("", "^")
    assert excerpt(Document("a", "ab\n", "json", "ds_config"), 3, 3) == ("", "^")
    assert excerpt(Document("a", "ab\ncd", "json", "ds_config"), 2, 2) == ("ab", "  ^")


@given(st.text(st.sampled_from("ab\t\r\n日\u0301\x1b\ud800"), max_size=300), st.data())
def test_any_place_of_any_text_can_be_shown(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    line, marks = excerpt(Document("a", text, "json", "ds_config"), start, end)
    assert line.isprintable()
    assert re.fullmatch(r" *\^+", marks)
    assert len(marks) <= cells(line) + 1


# --- text ----------------------------------------------------------------------------------------


def test_text():
    fix = Fix("remove it", (Edit(2, 5, ""),))
    unsafe = Fix("change it", (Edit(2, 5, "x"),), safe=False)
    report = Report(
        findings=(
            found("{\n  key: 1\n}", "key", fix=fix),
            found("{\n  key: 1\n}", "key", path="b.json", severity="warning", fix=unsafe),
        ),
        skipped=(Skipped("c.json", None, "a template"), Skipped("b.json", "ZC301", "--hardware")),
        num_known=3,
        num_files=5,
    )
    assert (
        re.sub(r"\x1b\[[0-9;]*m", "", findings_text(report))
        == """\
a.json:2:3: error ZC240 [offload-param-below-stage-3] a message
  2 |   key: 1
    |   ^^^
    = fix: remove it

b.json:2:3: warning ZC240 [offload-param-below-stage-3] a message
  2 |   key: 1
    |   ^^^
    = fix: change it (unsafe)

Found 1 error, 1 warning in 2 of 5 files.
1 fixable with --fix (1 more with --unsafe-fixes).
Why, with examples: zeroconf rule ZC240
Not shown: 3 in the baseline.
Skipped c.json: a template.
Rules not checked: ZC301 (need --hardware)."""
    )


def test_no_name_and_no_message_moves_the_cursor():
    report = Report(findings=(found("key", "key", path="a\n\x1b[31m.json", message="b\x1b[2J\nc"),), num_files=1)
    text = re.sub(r"\x1b\[(0|1|\d{2})m", "", findings_text(report))
    assert "\x1b" not in text
    assert "a??[31m.json:1:1" in text


def test_what_is_skipped_takes_a_line_for_each_reason():
    files = [Skipped(f"{number}.yml", None, "a template") for number in range(7)]
    rules = [Skipped(path, code, "--hardware") for path in ("a", "b") for code in ("ZC301", "ZC302")]
    report = Report(skipped=(*files, Skipped("x", None, "foreign"), *rules), num_files=8)
    assert findings_text(report).splitlines()[1:] == [
        "Skipped 0.yml, 1.yml, 2.yml, 3.yml, 4.yml and 2 more: a template.",
        "Skipped x: foreign.",
        "Rules not checked: ZC301, ZC302 (need --hardware).",
    ]


# --- json ----------------------------------------------------------------------------------------


def test_json_follows_its_schema():
    fix = Fix("change it", (Edit(2, 5, "x"),), safe=False)
    report = Report(
        findings=(found("{\n日key: 1\n}", "key", fix=fix), found("", "", rule=UNUSED, severity="info")),
        skipped=(Skipped("c.json", None, "a template"), Skipped("b.json", "ZC301", "--hardware")),
        num_files=3,
    )
    content = findings_json(report)
    jsonschema.validate(content, json.loads(data_path("schemas/lint.schema.json").read_bytes()))
    assert content["findings"][0] == {
        "path": "a.json",
        "line": 2,
        "column": 2,
        "end_line": 2,
        "end_column": 5,
        "pointer": "/key",
        "code": "ZC240",
        "name": "offload-param-below-stage-3",
        "severity": "error",
        "confidence": "high",
        "message": "a message",
        "fix": {
            "title": "change it",
            "safe": False,
            "edits": [{"line": 2, "column": 1, "end_line": 2, "end_column": 4, "text": "x"}],
        },
        "help": "zeroconf rule ZC240",
    }


# --- GitHub --------------------------------------------------------------------------------------


def test_github_escapes():
    report = Report(
        findings=(
            found("{\nkey}", "key", path="a,b:100%.json", message="50% of\r\nx: y,z"),
            found("{\nkey\nend}", "key\nend", severity="info"),
        )
    )
    name = "title=ZC240 offload-param-below-stage-3"
    assert findings_github(report) == (
        f"::error file=a%2Cb%3A100%25.json,line=2,endLine=2,col=1,endColumn=4,{name}::50%25 of%0D%0Ax: y,z\n"
        f"::notice file=a.json,line=2,endLine=3,{name}::a message\n"
    )


# --- SARIF ---------------------------------------------------------------------------------------


def sarif(report):
    content = findings_sarif(report)
    jsonschema.validate(content, SARIF_SCHEMA)
    return content["runs"][0]


def test_sarif_follows_its_schema():
    finding = found("{\n日key: 1\n}", "key", fix=Fix("change it", (Edit(2, 5, "x"), Edit(9, 9, ""))))
    info = found("{\n日key: 1\n}", "1", rule=UNUSED, severity="info")
    report = Report(
        findings=(finding, info),
        suppressed=(Suppressed(finding, "we know"), Suppressed(info, "generated", in_file=False)),
        skipped=(Skipped("c.json", None, "a template"), Skipped("b.json", "ZC301", "--hardware")),
        failures=("d.json: there is no such file",),
    )
    run = sarif(report)
    first, second, third, fourth = run["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 2, "startColumn": 2, "endLine": 2, "endColumn": 5}
    assert place["artifactLocation"] == {"uri": "a.json", "uriBaseId": "%SRCROOT%"}
    assert first["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"] == {"text": "x"}
    assert (first["level"], second["level"]) == ("error", "note")
    rules = run["tool"]["driver"]["rules"]
    assert [rules[one["ruleIndex"]]["id"] for one in run["results"]] == [one["ruleId"] for one in run["results"]]
    assert third["suppressions"] == [{"kind": "inSource", "justification": "we know"}]
    assert fourth["suppressions"] == [{"kind": "external", "justification": "generated"}]
    assert not run["invocations"][0]["executionSuccessful"]


def test_sarif_of_nothing():
    assert sarif(Report(num_files=1))["results"] == []


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_every_rules_page_fits_sarif(rule):
    sarif(Report(findings=(found("key", "key", rule=rule),)))


def test_fingerprints_survive_moved_lines_and_tell_findings_apart():
    def prints(*findings):
        return [one["partialFingerprints"]["primaryLocationLineHash"] for one in sarif(Report(findings))["results"]]

    here, moved = found("{key}", "key"), found("{\n\n  key}", "key", message="other words")
    assert prints(here) == prints(moved)
    others = prints(
        here, here, found("{x}", "x"), found("{key}", "key", path="b.json"), found("{key}", "key", rule=UNUSED)
    )
    assert len(set(others)) == 5


def test_uris(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert uri("./a b/ü%:#.json") == "a%20b/%C3%BC%25%3A%23.json"
    assert uri(str(tmp_path / "sub" / "a.json")) == "sub/a.json"
    assert uri("..a/b.json") == "..a/b.json"
    assert uri("../a b.json") == (tmp_path.parent / "a b.json").as_uri()
    assert uri("a\udcff.json") == "a%FF.json"


# --- diff ----------------------------------------------------------------------------------------


def test_a_diff_keeps_line_ends():
    assert unified_diff("a.json", "1\r\n2\u2028\r\n3", "1\r\n4\u2028\r\n3\n") == (
        "--- a.json\n+++ a.json\n@@ -1,3 +1,3 @@\n 1\r\n-2\u2028\r\n-3\n\\ No newline at end of file\n+4\u2028\r\n+3\n"
    )
    assert unified_diff("a.json", "1\n", "1\n") == ""


def test_reasons_of_single_files_are_not_all_told():
    rules = [Skipped(f"{number}.json", "ZC301", f"{number}.json: no plan") for number in range(9)]
    report = Report(skipped=(*rules, Skipped("a", "ZC302", "--model"), Skipped("a", "ZC301", "--model")), num_files=9)
    line = findings_text(report).splitlines()[-1]
    assert line.startswith("Rules not checked: ZC301, ZC302 (need --model); ZC301 (0.json: no plan); ")
    assert line.endswith("ZC301 (3.json: no plan); 5 more reasons in --format json.")
