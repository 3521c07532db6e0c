"""The rule pages are those of today's rules, and the examples in the documentation are what they say."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from with_writers import ROOT, writer

from zeroconf.api import lint
from zeroconf.cli import cli
from zeroconf.document.read import parse_document
from zeroconf.inputs.cluster import read_cluster
from zeroconf.inputs.inventory import Inventory
from zeroconf.inputs.project import read_project
from zeroconf.lint.settings import Options, SettingsFinder
from zeroconf.rules import RULES

CI = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", CI, re.MULTILINE | re.DOTALL)


def test_rule_pages_are_fresh():
    texts = writer().texts()
    for path, text in texts.items():
        assert path.read_text(encoding="utf-8") == text, "run docs/write_rules.py"
    assert {*(ROOT / "docs/rules").iterdir()} == {path for path in texts if path.parent.name == "rules"}


def test_the_figures_are_fresh(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    texts = writer("write_figures").texts()
    assert {path.name for path in texts} >= {"README.md", "ladder.md", "speed.md", "which-stage.md"}
    for path, text in texts.items():
        assert path.read_text(encoding="utf-8") == text, "run docs/write_figures.py"


def test_the_clusters_are_fresh():
    texts = writer("write_clusters").texts()
    for path, text in texts.items():
        assert path.read_text(encoding="utf-8") == text, "run docs/write_clusters.py"
    folders = [*(ROOT / "templates/clusters").iterdir()]
    assert len(folders) >= 14
    for page in ("README.md", "docs/how-it-decides.md"):
        assert f"for {len(folders)} clusters" in (ROOT / page).read_text(encoding="utf-8").replace("\n", " ")
    names = {"zeroconf.toml", "ds_config.json", "accelerate.yaml", "launch.sh"}
    assert all({path.name for path in folder.iterdir()} == names for folder in folders)


def test_the_clusters_are_clean_under_lint():
    report = lint([ROOT / "templates/clusters"])
    assert report.findings == ()
    assert report.num_files >= 28


def test_the_inventory_by_hand_is_read_and_fills_the_whole_cluster(tmp_path):
    page = (ROOT / "docs/detect.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "cluster.yaml").write_text(text, encoding="utf-8")
    cluster = read_cluster(str(tmp_path / "cluster.yaml"))
    assert (cluster.num_gpus, cluster.gpu.name, cluster.gpu.half_flops_per_second) == (32, "NewCard-96GB", 400e12)
    assert (cluster.network.bandwidth_bytes_per_second, cluster.network.confidence) == (40e9, "measured")
    assert set(yaml.safe_load(text)) == set(Inventory.model_fields) - {"written_as", "sources", "unknown", "notes"}


def test_the_page_of_models_is_fresh(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    page = writer("write_models")
    assert page.PAGE.read_text(encoding="utf-8") == page.text(), "run docs/write_models.py"


def test_the_outcomes_of_a_smoke_test_are_explained():
    page = (ROOT / "docs/smoke-test.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE))
    schema = json.loads((ROOT / "schemas/smoke-test.schema.json").read_text(encoding="utf-8"))
    assert told == {*schema["properties"]["outcome"]["enum"]} - {"fits", "ran"}


def test_the_workflow_with_a_gpu_runner():
    page = (ROOT / "docs/smoke-test.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    steps = yaml.safe_load(text)["jobs"]["smoke"]["steps"]
    (words,) = (shlex.split(step["run"].partition(" > ")[0]) for step in steps if "smoke-test" in step.get("run", ""))
    cli.commands["smoke-test"].make_context("smoke-test", words[2:])
    assert steps[-1]["with"]["path"] == "smoke.json"


def test_the_translation_shows_what_the_readme_shows():
    translation = writer("write_translation")
    assert translation.TRANSLATION.read_text(encoding="utf-8") == translation.text(), "run docs/write_translation.py"


def test_the_translation_leads_where_the_readme_leads():
    def targets(name):
        text = (ROOT / name).read_text(encoding="utf-8")
        return {target for target in re.findall(r"\]\(([^)]+)\)", text) if not target.startswith("README")}

    assert targets("README.zh-CN.md") == targets("README.md")


def test_every_rule_has_a_family():
    assert {code[:3] for code in RULES} <= {*writer().FAMILIES}


def anchors(page):
    """The names by which GitHub knows a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target, _, anchor in re.findall(r"\]\(([^)#:]+)(#([^)]*))?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"
            assert not anchor or anchor in anchors(page.parent / target), f"{page}: {target}#{anchor}"


def test_the_hooks():
    assert [hook["id"] for hook in HOOKS] == ["zeroconf-lint", "zeroconf-fix"]
    assert (ROOT / "pre-commit-hooks.yaml").readlink() == Path(".pre-commit-hooks.yaml")
    config, _, workflow = (yaml.safe_load(text) for text in blocks("yaml"))
    assert {hook["id"] for hook in config["repos"][0]["hooks"]} <= {hook["id"] for hook in HOOKS}
    steps = workflow["jobs"]["lint"]["steps"]
    assert steps[-1]["uses"].startswith("github/codeql-action/upload-sarif@")
    assert steps[-1]["with"]["sarif_file"] in steps[-2]["run"]
    assert workflow["permissions"]["security-events"] == "write"


def test_the_project_file_shown_is_accepted(tmp_path):
    (project,) = blocks("toml")
    assert "lint" in tomllib.loads(project)["tool"]["zeroconf"]
    (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    assert read_project(tmp_path)["for"] == "trainer"
    settings = SettingsFinder(Options()).for_folder(tmp_path)
    assert settings.ignores_in(tmp_path / "legacy/old.json").keys() == {"ZC240"}


@pytest.mark.parametrize("text", blocks("json"))
def test_json_shown_is_json(text):
    assert parse_document(text.encode(), "a.json").root is not None
