"""``--params`` beside a configuration whose architecture is not known."""

from __future__ import annotations

import json

import pytest

from zeroconf.errors import InputError
from zeroconf.inputs.model import read_model

JAMBA = {
    "model_type": "jamba",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 65536,
    "intermediate_size": 14336,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 262144,
}


@pytest.fixture
def model(tmp_path):
    def read(values, params=None):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(values), encoding="utf-8")
        return read_model(str(path), params)

    return read


def test_without_params_the_error_names_them(model):
    with pytest.raises(InputError, match=r"architecture 'jamba' is not known; .* --params 7B"):
        model(JAMBA)


def test_the_shape_is_the_configurations_and_the_count_is_given(model):
    read = model(JAMBA, "52B")
    assert (read.num_parameters, read.num_layers, read.hidden_size, read.vocab_size) == (
        52_000_000_000,
        32,
        4096,
        65536,
    )
    assert (read.num_attention_heads, read.num_key_value_heads, read.head_dim) == (32, 8, 128)
    assert (read.architecture, read.max_sequence_length) == ("jamba", 262144)
    assert "52B parameters (--params)" in read.assumptions[0]


def test_experts_that_rest_are_not_active(model):
    idle = 3 * 4096 * 14336 * 32 * 14
    read = model(JAMBA, "120B")
    assert (read.num_experts, read.num_experts_per_token) == (16, 2)
    assert read.num_active_parameters == 120_000_000_000 - idle
    assert model({**JAMBA, "num_experts": None}, "7B").num_active_parameters == 7_000_000_000


def test_what_the_configuration_lacks_is_that_of_the_bare_size_and_named(model):
    mamba = {"model_type": "mamba", "d_model": 2560, "n_layer": 64, "vocab_size": 50280}
    read = model(mamba, "2.8B")
    assert (read.num_layers, read.hidden_size, read.vocab_size) == (64, 2560, 50280)
    assert any(note.startswith("num_attention_heads: not in the configuration") for note in read.assumptions)
    nothing = model({"model_type": "novelty"}, "7B")
    assert nothing.hidden_size == read_model("7B").hidden_size
    assert nothing.num_parameters == 7_000_000_000


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        ({}, "decoder"),
        ({"architectures": ["JambaForCausalLM"]}, "decoder"),
        ({"architectures": ["DebertaV2ForMaskedLM"]}, "encoder"),
        ({"is_encoder_decoder": True}, "encoder-decoder"),
    ],
)
def test_the_kind_is_what_the_configuration_says(model, says, kind):
    read = model({**JAMBA, "num_experts": None, **says}, "7B")
    assert (read.kind, read.gated_mlp) == (kind, kind == "decoder")
    assert f"a plain {kind} with 7B parameters" in read.assumptions[0]


def test_a_vision_language_model_gives_its_text_part(model):
    whole = {"model_type": "novelty_vl", "text_config": JAMBA, "vision_config": {"model_type": "clip_vision_model"}}
    read = model(whole, "52B")
    assert (read.architecture, read.num_layers) == ("jamba", 32)
    assert "its tower (clip_vision_model)" in read.assumptions[0]


@pytest.mark.parametrize(
    ("name", "counted"), [("llama-3.1-8b", "8.03B"), ("7B", "7B"), ("meta-llama/Llama-2-7b-hf", "6.74B")]
)
def test_params_beside_a_known_model_are_refused_unless_they_say_the_same(name, counted):
    error = rf"^--params 3B has no effect here: .* is counted, {counted} parameters; leave it out$"
    with pytest.raises(InputError, match=error):
        read_model(name, "3B")
    plain, given = read_model(name), read_model(name, counted)
    assert given == plain


def test_params_beside_a_configuration_that_is_counted_are_refused(model):
    llama = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    with pytest.raises(InputError, match="--params 7B has no effect here"):
        model({**llama, "intermediate_size": 128, "vocab_size": 512}, "7B")


def test_a_rounded_size_says_the_same():
    assert read_model("llama-2-7b", "7B") == read_model("llama-2-7b")


@pytest.mark.parametrize("params", ["7 potatoes", ""])
def test_params_that_are_no_size_are_refused_beside_any_model(params):
    with pytest.raises(InputError, match="write it like 7B"):
        read_model("llama-3.1-8b", params)


@pytest.mark.parametrize(
    ("params", "part"),
    [
        ("100M", "vocabulary alone has 65536 x 4096 = 268M"),
        ("7", "out of range"),
        ("7 potatoes", "write it like 7B"),
        ("-7B", "write it like 7B"),
        ("", "write it like 7B"),
    ],
)
def test_absurd_params_are_one_error(model, params, part):
    with pytest.raises(InputError, match=part):
        model(JAMBA, params)


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
@pytest.mark.parametrize("value", [-1, "4096", 1e30, 10**30, True, [1]])
def test_absurd_values_are_named(model, key, value):
    with pytest.raises(InputError, match=f"'{key}'"):
        model({**JAMBA, key: value}, "52B")
