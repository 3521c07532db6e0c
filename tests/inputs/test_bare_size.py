from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroconf.errors import InputError
from zeroconf.inputs.model import read_model

if TYPE_CHECKING:
    from zeroconf.types import ModelSpec


def derived(model: ModelSpec) -> int:
    attention = 2 * model.hidden_size * (model.query_size + model.key_value_size)
    block = attention + 3 * model.hidden_size * model.intermediate_size
    return model.num_layers * block + model.embedding_parameters * (1 if model.tied_embeddings else 2)


@pytest.mark.parametrize(
    ("size", "parameters", "layers", "hidden"),
    [("7B", 7_000_000_000, 32, 4096), ("13b", 13_000_000_000, 40, 5120), ("70B", 70_000_000_000, 80, 8192)],
)
def test_the_usual_sizes_have_the_usual_shapes(size, parameters, layers, hidden):
    model = read_model(size)
    assert (model.num_parameters, model.num_layers, model.hidden_size) == (parameters, layers, hidden)
    assert f"{layers} layers, width {hidden}" in model.assumptions[0]


def test_350m_is_exact():
    assert read_model("350M").num_parameters == 350_000_000
    assert read_model("1.5B").num_parameters == 1_500_000_000
    assert read_model("7000000000").num_parameters == 7_000_000_000


@given(st.integers(10**6, 2 * 10**12))
def test_any_size_has_a_consistent_shape(size):
    model = read_model(str(size))
    assert model.num_parameters == size
    assert model.hidden_size == model.num_attention_heads * model.head_dim
    assert model.hidden_size % 128 == 0
    assert model.head_dim in {64, 128}
    assert model.num_attention_heads % model.num_key_value_heads == 0
    assert 2 * model.hidden_size <= model.intermediate_size <= 4 * model.hidden_size
    # below 50M one layer more or less is a large step
    assert derived(model) == pytest.approx(size, rel=0.05 if size >= 50_000_000 else 0.35)


@given(st.integers(5 * 10**7, 10**12))
def test_larger_models_are_not_narrower(size):
    assert read_model(str(2 * size)).hidden_size >= read_model(str(size)).hidden_size


@pytest.mark.parametrize("size", ["0B", "7", "999K", "2.1T", "9999999T", "1e9", "7Q", "7..B", "7 7B"])
def test_absurd_sizes_are_refused(size):
    with pytest.raises(InputError):
        read_model(size)
