"""A Kubernetes manifest: the files in it are linted where they stand."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from zeroconf import api
from zeroconf.cli import cli

MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  notes.txt: |
    we use deepspeed here
  ds.json: |-  # the one that trains

    {
      "train_micro_batch_size_per_gpu": 4,
      "gradient_acumulation_steps": 8,
      "gradient_clipping": 1.0
    }
  # a remark
  hosts: |
      one slots=8
      one slots=8
---
apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      containers:
        - command: [bash, -c]
          args:
            - |
              cd /code
              torchrun --nproc_per_node 8 train.py --deepspeed /mnt/ds.json --per_device_train_batch_size 2
"""


def drawn(text, tmp_path):
    path = tmp_path / "k8s.yaml"
    path.write_bytes(text.encode())
    report = api.lint([path])
    return {(one.rule.code, *one.document.position(one.start)) for one in report.findings}, report


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_each_file_is_linted_at_its_place(tmp_path, end):
    found, report = drawn(MANIFEST.replace("\n", end), tmp_path)
    assert found == {("ZC102", 11, 7), ("ZC021", 17, 7), ("ZC505", 29, 107)}
    assert report.num_files == 1
    assert report.fails
    assert {one.document.path for one in report.findings} == {str(tmp_path / "k8s.yaml")}


def test_the_file_is_left_as_it_is(tmp_path):
    path = tmp_path / "k8s.yaml"
    path.write_text(MANIFEST)
    report = api.lint([path], fixing="unsafe")
    assert report.changes == ()
    assert set(report.left_out) == {one for one in report.findings if one.fix}
    done = CliRunner().invoke(cli, ["lint", str(path), "--fix"])
    assert (done.exit_code, path.read_text()) == (1, MANIFEST)
    assert "fixable with --fix" not in done.output
    assert "would rewrite a block of a manifest" in done.output


def test_what_an_editor_wants_fixed_comes_back_as_it_was():
    done = CliRunner().invoke(cli, ["lint", "-", "--fix", "--stdin-filename", "k8s.yaml"], input=MANIFEST)
    assert done.stdout == MANIFEST


def test_a_block_that_is_no_configuration_is_none(tmp_path):
    text = MANIFEST[: MANIFEST.index("  ds.json")] + "  app.json: |\n    {broken\n  more.json: |\n    {}\n"
    found, report = drawn(text, tmp_path)
    assert (found, [one.needs[:23] for one in report.skipped]) == (set(), ["a Kubernetes manifest t"])


def test_a_folders_manifests_are_read(tmp_path):
    (tmp_path / "k8s.yaml").write_text(MANIFEST)
    (tmp_path / "other.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: b}\n")
    report = api.lint([tmp_path])
    assert report.num_files == 1
    assert "ZC102" in {one.rule.code for one in report.findings}
