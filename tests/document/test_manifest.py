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


FAULTY = '{"gradient_acumulation_steps": 8, "train_micro_batch_size_per_gpu": 4, "gradient_clipping": 1.0}'
SCRIPT = "torchrun --nproc_per_node 8 train.py --deepspeed /mnt/ds.json --per_device_train_batch_size"


def config_map(*blocks):
    return "\n".join(["apiVersion: v1", "kind: ConfigMap", "metadata: {name: a}", "data:", *blocks, ""])


def test_blocks_of_one_name_are_all_linted_and_each_sees_the_nearest(tmp_path):
    good = '  ds.json: |\n    {"train_micro_batch_size_per_gpu": %d, "gradient_clipping": 1.0}'
    parts = (config_map(good % size, "  run.sh: |", f"    {SCRIPT} {batch}") for size, batch in ((2, 2), (4, 2)))
    text = "---\n".join([config_map("  ds.json: |", f"    {FAULTY}"), *parts])
    assert drawn(text, tmp_path)[0] == {("ZC102", 6, 6), ("ZC505", 24, 97)}


@pytest.mark.parametrize("name", ["train.py", "README.md", "notes.txt", "Makefile", "x.tpl"])
def test_text_that_only_speaks_of_deepspeed_is_no_faulty_configuration(tmp_path, name):
    text = f"    import deepspeed\n    config = {FAULTY}\n    deepspeed.initialize(config=config) : [\n"
    found, report = drawn(config_map(f"  {name}: |", text), tmp_path)
    assert (found, len(report.skipped)) == (set(), 1)


@pytest.mark.parametrize("launch", [f"{SCRIPT} 2", "cat /mnt/ds.json"])
def test_what_a_script_writes_is_no_part_of_it(tmp_path, launch):
    body = "".join(
        f"        {line}\n"
        for line in ("cat > hosts <<EOF", "one slots=8", "EOF", "cat > b.json <<EOF", FAULTY, "EOF", launch)
    )
    text = config_map("  ds.json: |", '    {"train_micro_batch_size_per_gpu": 4, "gradient_clipping": 1.0}')
    text += f"---\nkind: Job\nspec:\n  containers:\n    - args:\n      - |\n{body}"
    assert drawn(text, tmp_path)[0] == ({("ZC505", 19, 101)} if "torchrun" in launch else set())


@pytest.mark.parametrize(
    "header", ["ds: &a |", "ds: |2", '"ds.json": |', "ds.json: !!str |", "ds : |  # c", "? a\n  : |"]
)
def test_every_header_of_a_literal_block_is_read(tmp_path, header):
    line = 6 + header.count("\n")
    assert drawn(config_map(f"  {header}", f"    {FAULTY}"), tmp_path)[0] == {("ZC102", line, 6)}


def test_a_block_in_quotes_is_not_and_the_report_says_so(tmp_path):
    found, report = drawn(config_map(f"  ds.json: '{FAULTY}'"), tmp_path)
    assert (found, report.skipped[0].needs.endswith("in a literal block (|)")) == (set(), True)


def test_an_empty_block_leaves_its_neighbour_alone(tmp_path):
    text = config_map("  empty.yaml: |", "  ds.json: |", f"    {FAULTY}", "  last: |")
    assert drawn(text, tmp_path)[0] == {("ZC102", 7, 6)}


def test_no_block_is_left_out(tmp_path):
    text = config_map(*(f"  ds{number}.json: |\n    {FAULTY}" for number in range(150)))
    assert drawn(text, tmp_path)[0] == {("ZC102", 6 + 2 * number, 6) for number in range(150)}


@pytest.mark.parametrize("start", ["", "# a remark\n\n---\n"])
def test_a_manifest_needs_no_name_that_says_so(tmp_path, start):
    (tmp_path / "k.out").write_text(start + MANIFEST)
    done = CliRunner().invoke(cli, ["lint", "-", "--format", "concise"], input=start + MANIFEST)
    named = api.lint([tmp_path / "k.out"]).findings
    assert [one.rule.code for one in named] == ["ZC102", "ZC021", "ZC505"]
    assert all(code in done.stdout for code in ("ZC102", "ZC021", "ZC505"))
    assert "ZC032" not in done.stdout
