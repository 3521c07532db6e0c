"""The linter as a library."""

from __future__ import annotations

import pytest
from lint_texts import BAD, GOOD

from zeroconf import api
from zeroconf.document.read import parse_document
from zeroconf.errors import InputError
from zeroconf.lint import lint_document
from zeroconf.lint.settings import Options


def test_findings_are_values(tmp_path):
    (tmp_path / "a.json").write_text(BAD)
    report = api.lint([tmp_path / "a.json", str(tmp_path / "missing.json")])
    (finding,) = report.findings
    assert (finding.rule.code, finding.pointer) == ("ZC240", "/zero_optimization/offload_param")
    assert finding.document.position(finding.start) == (1, 59)
    assert report.exit_code == 2
    assert report.failures == (f"{tmp_path}/missing.json: there is no such file",)
    assert api.lint([tmp_path / "a.json"], Options(ignore=["ZC2"])).exit_code == 0
    with pytest.raises(InputError):
        api.lint([tmp_path], Options(select=["ZC9"]))


def test_fixing_gives_texts_and_writes_nothing(tmp_path, make_rule):
    from zeroconf.document.edits import Fix, replace  # noqa: PLC0415
    from zeroconf.rules.registry import Problem  # noqa: PLC0415

    def check(config):
        if config.stage == 2:
            path = ("zero_optimization", "stage")
            yield Problem("not 2", path, fix=Fix("3", replace(config.document, path, 3)))

    make_rule(check)
    path = tmp_path / "a.json"
    path.write_text(GOOD)
    report = api.lint([path], fixing="safe")
    assert report.changes == ((str(path), GOOD, GOOD.replace("2}", "3}")),)
    assert (report.findings, len(report.cured), report.exit_code) == ((), 1, 1)
    assert path.read_text() == GOOD


def test_no_file_is_no_finding(tmp_path):
    assert api.lint([tmp_path]).exit_code == 0
    assert api.lint([]).num_files == 0


def test_an_auto_that_deepspeed_knows_shows_no_trainer():
    content = b'{"train_batch_size": 8, "zero_optimization": {"stage": 2, "zenflow": {"select_strategy": "auto"}}}'
    drawn = lint_document(parse_document(content, "a.json")).findings
    assert not [one for one in drawn if "Trainer" in one.message or "Accelerate" in one.message]
