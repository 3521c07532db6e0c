"""Parameter counts: the catalogue against its published figures, and each family against Transformers itself."""

from __future__ import annotations

import pytest
from architecture_cases import CASES, ELSEWHERE, count, real_count
from hypothesis import given
from hypothesis import strategies as st

from zeroconf.inputs import catalogue
from zeroconf.inputs.architectures import spec_from_config
from zeroconf.inputs.architectures.read import FAMILIES
from zeroconf.inputs.config_json import Config

# T5Config of transformers 5 ties the output matrix whatever the file says; the saved models hold it apart
UNTIED = {"flan-t5-small", "flan-t5-base", "flan-t5-large", "flan-t5-xl", "flan-t5-xxl"}


@pytest.mark.parametrize("case", CASES)
def test_counts_are_those_of_the_real_module(case):
    model_type, values = CASES[case]
    assert count(model_type, values) == real_count(model_type, values)


def test_every_family_is_compared():
    aliases = {"xlm-roberta", "camembert"}
    assert set(FAMILIES) - aliases - ELSEWHERE == {model_type for model_type, _ in CASES.values()}


ONE_OF_EACH = {entry["config"]["model_type"]: entry for entry in catalogue.entries() if entry["name"] not in UNTIED}


@pytest.mark.parametrize("model_type", sorted(set(ONE_OF_EACH) - ELSEWHERE))
def test_entries_hold_all_that_transformers_needs_to_build_the_model(model_type):
    entry = ONE_OF_EACH[model_type]
    values = {key: value for key, value in entry["config"].items() if key != "model_type"}
    assert real_count(model_type, values) == entry["num_parameters"]


def test_what_transformers_ties_is_counted_apart_and_said():
    assert len(ONE_OF_EACH) >= 20
    for name in UNTIED:
        spec = catalogue.spec(catalogue.find(name), name)
        assert not spec.tied_embeddings
        assert any(f"{spec.embedding_parameters:,} fewer" in note for note in spec.assumptions)


def test_active_parameters_leave_out_the_idle_experts():
    values = CASES["mixtral"][1]
    spec = spec_from_config(Config({"model_type": "mixtral", **values}, "test"), "test", "test")
    assert spec.num_parameters - spec.num_active_parameters == 3 * (5 - 2) * 3 * 64 * 96


def test_the_catalogue_derives_its_published_counts():
    for entry in catalogue.entries():
        spec = catalogue.spec(entry, entry["name"])
        assert spec.num_parameters == entry["num_parameters"], entry["name"]
        assert spec.num_active_parameters == entry["num_active_parameters"], entry["name"]


@given(st.sampled_from(sorted(CASES)), st.integers(1, 200))
def test_more_layers_are_more_parameters(case, layers):
    model_type, values = CASES[case]
    key = next(
        key for key in ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers") if key in values
    )
    fixed = {"mlp_only_layers": [], "first_k_dense_replace": 1, "moe_layers": None}
    fewer = count(model_type, {**values, **fixed, key: layers})
    more = count(model_type, {**values, **fixed, key: layers + 1})
    assert more > fewer
