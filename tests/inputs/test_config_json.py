from __future__ import annotations

import json
import os

import pytest

from zeroconf.errors import InputError
from zeroconf.inputs.model import read_model

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}


def write(folder, values, name="config.json"):
    path = folder / name
    path.write_text(values if isinstance(values, str) else json.dumps(values), encoding="utf-8")
    return path


def test_a_file_and_its_folder_are_the_same(tmp_path):
    folder = tmp_path / "my-llama"
    folder.mkdir()
    path = write(folder, LLAMA)
    by_file, by_folder = read_model(str(path)), read_model(str(folder))
    assert by_file == by_folder
    assert (by_file.name, by_file.num_parameters) == ("my-llama", 8_030_261_248)
    assert str(path) in by_file.source


def test_a_folder_of_the_working_directory_wins_over_the_catalogue(tmp_path, monkeypatch):
    (tmp_path / "gpt2").mkdir()
    write(tmp_path / "gpt2", LLAMA)
    monkeypatch.chdir(tmp_path)
    assert read_model("gpt2").architecture == "llama"


def test_a_byte_order_mark_is_no_obstacle(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())
    assert read_model(str(path)).num_layers == 32


def test_the_language_part_of_a_vision_model_is_counted(tmp_path):
    path = write(tmp_path, {"model_type": "llava", "text_config": LLAMA, "vision_config": {"hidden_size": 1024}})
    model = read_model(str(path))
    assert model.num_parameters == 8_030_261_248
    assert any("not the vision part" in note for note in model.assumptions)


def test_text_config_may_leave_out_what_the_class_says(tmp_path):
    gemma = {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34}
    model = read_model(str(write(tmp_path, {"model_type": "gemma3", "text_config": gemma, "vision_config": {}})))
    assert model.num_parameters == 3_880_263_168  # google/gemma-3-4b, text part
    assert any("vocab_size 262208" in note for note in model.assumptions)


@pytest.mark.parametrize("alibi", [True, False])
def test_what_falcons_position_biases_take_is_said_not_to_count(tmp_path, alibi):
    falcon = {"model_type": "falcon", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32}
    falcon |= {"vocab_size": 50304, "alibi": alibi, "multi_query": False, "parallel_attn": False, "bias": True}
    model = read_model(str(write(tmp_path, falcon)))
    assert model.num_parameters == 1_311_625_216  # tiiuae/falcon-rw-1b
    assert any("alibi" in note for note in model.assumptions) == alibi


@pytest.mark.parametrize("key", [key for key in LLAMA if key not in {"max_position_embeddings", "num_key_value_heads"}])
def test_missing_keys_are_named(tmp_path, key):
    path = write(tmp_path, {k: v for k, v in LLAMA.items() if k != key})
    with pytest.raises(InputError, match=f"'{key}' is missing"):
        read_model(str(path))


@pytest.mark.parametrize("key", [key for key in LLAMA if key != "model_type"])
@pytest.mark.parametrize("value", [-1, "4096", 1e30, 10**30, True, [1], {"a": 1}, 1.5, 0.0])
def test_absurd_values_are_named_in_one_line(tmp_path, key, value):
    path = write(tmp_path, {**LLAMA, key: value})
    with pytest.raises(InputError, match=f"'{key}'") as error:
        read_model(str(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"num_hidden_layers": 10_001}, "from 1 to 10000"),
        ({"num_key_value_heads": 5}, "multiple of 'num_key_value_heads' 5"),
        ({"num_attention_heads": 48, "num_key_value_heads": 8}, "not a multiple of 'num_attention_heads' 48"),
        ({"model_type": "mamba"}, "'mamba' is not known; .* --params 7B"),
        ({"model_type": 7}, "must be a string"),
        ({"attention_bias": "yes"}, "true or false"),
        ({"text_config": [1]}, "must be a mapping"),
        ({"hidden_size": 10**8, "intermediate_size": 10**8, "vocab_size": 10**8}, "more than any model has"),
    ],
)
def test_contradictions_are_named(tmp_path, change, part):
    with pytest.raises(InputError, match=part):
        read_model(str(write(tmp_path, {**LLAMA, **change})))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "null",
        '{"hidden_size": NaN}',
        '{"hidden_size": Infinity}',
        "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
        "\x00",
    ],
)
def test_no_json_is_one_line(tmp_path, text):
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=r"config\.json") as error:
        read_model(str(path))
    assert "\n" not in str(error.value)


def test_unreadable_files(tmp_path):
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_model(str(tmp_path))
    with pytest.raises(InputError, match="no such file"):
        read_model(str(tmp_path / "other.json"))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match=r"no config\.json in this folder"):
        read_model(str(empty))
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InputError, match="not a regular file"):
        read_model(str(tmp_path / "pipe.json"))


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(InputError, match="larger than"):
        read_model(str(path))
