"""The command ``report``; what its page does is in tests/browser."""

from __future__ import annotations

import json
import re

import pytest

OPTIONS = ["--model", "llama-3.2-1b", "--hardware", "1xRTX4090"]


def embedded(page):
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_it_writes_one_file(run, tmp_path):
    code, out, err = run("report", *OPTIONS)
    assert (code, out, err) == (0, "Wrote report.html\n", "")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert not re.search(r"(?:src|href|url\()\s*=?\s*[\"']?(?:https?:)?//", page)
    assert [size["gpus"] for size in embedded(page)["sizes"]] == [1, 2, 4, 8]


def test_it_is_the_same_each_time(run, tmp_path):
    for name in ("a.html", "b.html"):
        assert run("report", *OPTIONS, "-o", name)[0] == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_nothing_is_overwritten_unasked(run, tmp_path):
    (tmp_path / "report.html").write_text("mine", encoding="utf-8")
    code, _, err = run("report", *OPTIONS)
    assert (code, err) == (2, "error: 'report.html' exists; --force overwrites it\n")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "mine"
    assert run("report", *OPTIONS, "--force", "--quiet") == (0, "", "")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") != "mine"


def test_to_standard_output(run, tmp_path):
    code, out, _ = run("report", *OPTIONS, "-o", "-")
    assert code == 0
    assert out.endswith("</html>\n")
    assert list(tmp_path.iterdir()) == []


def test_what_a_file_leaves_open_is_told(run, tmp_path):
    (tmp_path / "ds.json").write_text('{"bf16": {"enabled": true}}', encoding="utf-8")
    assert run("report", "ds.json", *OPTIONS)[0] == 0
    notes = embedded((tmp_path / "report.html").read_text(encoding="utf-8"))["notes"]
    told = [note for note in notes if note.startswith("ds.json: ")]
    assert told[0].startswith("ds.json: micro batch 1 x accumulation 1, where the file leaves it open")


def test_one_file_at_a_time(run):
    code, _, err = run("report", "a.json", "b.json", *OPTIONS)
    assert (code, err) == (2, "error: 2 configurations were given; give one at a time, a.json first\n")


def test_a_file_that_cannot_be_read(run, tmp_path):
    (tmp_path / "ds.json").write_text("{", encoding="utf-8")
    code, out, err = run("report", "ds.json", *OPTIONS)
    assert (code, out) == (2, "")
    assert err.startswith("error: ds.json:1:2")
    assert not (tmp_path / "report.html").exists()


def test_a_gpu_type_needs_a_count(run):
    code, _, err = run("report", "--model", "7B", "--hardware", "A100-80GB")
    assert code == 2
    assert "give one, like 8xA100-SXM4-80GB" in err


def test_a_model_that_does_not_fit_has_its_report(run, tmp_path):
    code, _, _ = run("report", "--model", "70B", "--hardware", "1xRTX4090")
    assert code == 0
    data = embedded((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert data["scenarios"]["1"]["chosen"] is None
    assert data["cures"]


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("mixtral-8x7b", ["--hardware", "16xp5.48xlarge", "--nvme", "/scratch:3TB"]),
        ("llama-3.2-1b", ["--hardware", "64x1xA100-80GB", "--network", "40gbe", "--nvme", "/scratch:3TB"]),
    ],
)
def test_the_largest_stay_small(run, tmp_path, model, options):
    assert run("report", "--model", model, *options)[0] == 0
    assert (tmp_path / "report.html").stat().st_size < 400_000
