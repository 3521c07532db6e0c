from __future__ import annotations

import json

import jsonschema
import pytest

from zeroconf.errors import InputError
from zeroconf.inputs.project import OPTIONS, json_schema, read_project
from zeroconf.resources import data_path

SETTINGS = """
model = "llama-3.1-8b"
hardware = "8xA100-80GB"
seq-len = 2048
zero_stage = 2
headroom = 0.1
client-optimizer = true
trainable-params = 20000000
for = "accelerate"
[lint]
select = ["ZC1"]
"""
READ = {
    "model": "llama-3.1-8b",
    "hardware": "8xA100-80GB",
    "seq_len": 2048,
    "zero_stage": 2,
    "headroom": 0.1,
    "client_optimizer": True,
    "trainable_params": 20_000_000,
    "for": "accelerate",
    "lint": {"select": ["ZC1"]},
}


def write(folder, name, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def test_both_homes(tmp_path):
    write(tmp_path / "a", "zeroconf.toml", SETTINGS)
    assert read_project(tmp_path / "a") == READ
    write(tmp_path / "b", "pyproject.toml", "[tool.zeroconf]" + SETTINGS.replace("[lint]", "[tool.zeroconf.lint]"))
    assert read_project(tmp_path / "b") == READ


def test_the_nearest_file_alone_counts(tmp_path):
    write(tmp_path, "zeroconf.toml", 'model = "7B"\nhardware = "T4"\n')
    write(tmp_path / "sub", "pyproject.toml", "[tool.other]\nx = 1\n")
    assert read_project(tmp_path / "sub" / "missing") == {"model": "7B", "hardware": "T4"}
    write(tmp_path / "sub", "pyproject.toml", '[tool.zeroconf]\nmodel = "13B"\n')
    assert read_project(tmp_path / "sub") == {"model": "13B"}
    write(tmp_path / "sub", "zeroconf.toml", 'model = "70B"\n')
    assert read_project(tmp_path / "sub") == {"model": "70B"}


def test_no_file_is_no_settings(tmp_path):
    assert read_project(tmp_path) == {}


def test_paths_are_those_of_the_project(tmp_path):
    write(tmp_path, "zeroconf.toml", 'hardware = "cluster.yaml"\nmodel = "gpt2"\n')
    write(tmp_path, "cluster.yaml", "gpus_per_node: 8\ngpu: T4\n")
    (tmp_path / "sub").mkdir()
    assert read_project(tmp_path / "sub") == {"hardware": str(tmp_path / "cluster.yaml"), "model": "gpt2"}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('modle = "7B"', "'modle' is not known.*nearest: model"),
        ("seq-len = 'x'", "must be an integer"),
        ("seq-len = true", "must be an integer"),
        ("seq-len = 0", "at least 1"),
        ("zero-stage = 4", "from 0 to 3"),
        ("headroom = nan", "from 0 to 0.9"),
        ("trainable-params = true", "must be a string"),
        ('for = "me"', "one of trainer"),
        ("lint = 3", "a table"),
        ("seq-len = 1\nseq_len = 2", "given twice"),
        ("a = \n", r"zeroconf\.toml:1:5: not TOML"),
        ("a = 1\na = 2\n", "not TOML"),
        ("a = [" + "[" * 5000, "not TOML"),
    ],
)
def test_mistakes_are_one_line(tmp_path, text, part):
    write(tmp_path, "zeroconf.toml", text)
    with pytest.raises(InputError, match=part) as error:
        read_project(tmp_path)
    assert "\n" not in str(error.value)
    assert "zeroconf.toml" in str(error.value)


def test_a_table_is_wanted(tmp_path):
    write(tmp_path, "pyproject.toml", "[tool]\nzeroconf = 3\n")
    with pytest.raises(InputError, match="must be a table"):
        read_project(tmp_path)


def test_the_schema_takes_what_the_reader_takes():
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.check_schema(json_schema())
    assert validator.is_valid({key.replace("_", "-"): value for key, value in READ.items()})
    assert set(json_schema()["properties"]) == set(OPTIONS)
    for wrong in ({"modle": "7B"}, {"seq-len": "x"}, {"zero-stage": 4}, {"for": "me"}, {"headroom": 2}):
        assert not validator.is_valid(wrong)


@pytest.mark.parametrize("name", ["inventory.schema.json", "detect.schema.json", "project.schema.json"])
def test_the_shipped_schemas_are_fresh(name):
    from zeroconf.inputs import inventory, project  # noqa: PLC0415  (pydantic, for this test only)

    fresh = {
        "inventory.schema.json": inventory.json_schema,
        "detect.schema.json": inventory.detected_json_schema,
        "project.schema.json": project.json_schema,
    }[name]()
    shipped = json.loads(data_path(f"schemas/{name}").read_text(encoding="utf-8"))
    assert shipped == fresh, "run: python schemas/write_inputs.py"
