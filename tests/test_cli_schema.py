from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from zeroconf.cli import cli
from zeroconf.errors import InputError

PAGE = (Path(__file__).parent.parent / "docs/editors.md").read_text(encoding="utf-8")


def _printed(*arguments):
    done = CliRunner().invoke(cli, ["schema", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("name", ["ds_config", "accelerate", "inventory", "project", "lint"])
def test_a_schema_is_printed_as_the_file_has_it(name):
    Draft202012Validator.check_schema(json.loads(_printed(name)))
    assert Path(_printed(name, "--path").rstrip("\n")).read_text(encoding="utf-8") == _printed(name)


def test_the_list_names_each():
    lines = _printed().splitlines()
    assert "ds_config   DeepSpeed configuration (0.19.8)" in lines
    assert [Path(path).name for path in _printed("--path").splitlines()] == [
        f"{line.split()[0]}.schema.json" for line in lines
    ]


@pytest.mark.parametrize(("name", "nearest"), [("ds_confg", "ds_config"), ("../x", "zeroconf schema lists them")])
def test_another_name_is_refused(name, nearest):
    with pytest.raises(InputError, match=nearest):
        CliRunner().invoke(cli, ["schema", name], catch_exceptions=False)


def test_the_page_shows_the_list():
    assert f"$ zeroconf schema\n{_printed()}```" in PAGE


def test_the_pages_problem_matcher_takes_a_finding_apart(tmp_path, monkeypatch):
    blocks = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
    (pattern,) = (task["problemMatcher"]["pattern"] for block in blocks for task in block.get("tasks", ()))
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text('{"train_batch_size": 8,\n "zero_optimisation": {"stage": 1}}')
    output = CliRunner().invoke(cli, ["lint", ".", "--format", "concise"]).output
    (found,) = (
        match for line in output.splitlines() if (match := re.match(pattern["regexp"], line)) and "ZC102" in line
    )
    names = ("file", "line", "column", "code", "severity")
    assert [found[pattern[name]] for name in names] == ["a.json", "2", "2", "ZC102", "error"]


def test_the_pages_configuration_is_clean():
    (text,) = re.findall(r"^```json\n(\{\n  \"\$schema.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    done = CliRunner().invoke(cli, ["lint", "-", "--fail-on", "info"], input=text)
    assert (done.exit_code, "No problems in 1 file." in done.output) == (0, True)
