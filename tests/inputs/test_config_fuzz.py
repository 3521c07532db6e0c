"""Whatever stands in a ``config.json``: a model, or one line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from zeroconf.errors import InputError
from zeroconf.inputs import catalogue
from zeroconf.inputs.architectures import FAMILIES
from zeroconf.inputs.architectures.vision import TOWERS
from zeroconf.inputs.model import read_model

ENTRIES = {entry["config"]["model_type"]: entry["config"] for entry in catalogue.entries()}
KEYS = sorted({key for config in ENTRIES.values() for key in config} | {"text_config", "vision_config", "id2label"})
NUMBERS = st.integers(-3, 10) | st.sampled_from([0, -1, 2**31, 10**9, 10**18, 10**40, 1e308, 1.5, -0.0])
NUMBERS |= st.sampled_from([float("nan"), float("inf"), float("-inf")])
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=8) | st.sampled_from(sorted(FAMILIES) + sorted(TOWERS))
JUNK = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=6), inner, max_size=6)
    ),
    max_leaves=12,
)
PARAMS = st.sampled_from([None, None, "7B", "1M", "2T", "0", "x"])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("config") / "config.json"


def model_or_one_line(path: Any, values: Any, params: str | None = None) -> None:
    path.write_text(json.dumps(values), encoding="utf-8")
    message, model = "", None
    try:
        model = read_model(str(path), params)
    except InputError as error:
        message = str(error)
    if model is None:
        assert len(message.splitlines()) == 1
        assert path.name in message or "params" in message
        return
    sizes = (model.num_layers, model.hidden_size, model.intermediate_size, model.head_dim, model.vocab_size)
    assert min(sizes) >= 1
    assert 0 < model.num_active_parameters <= model.num_parameters <= 10**16
    assert 0 <= model.num_experts_per_token <= model.num_experts


@given(values=JUNK, params=PARAMS)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json(path, values, params):
    model_or_one_line(path, values, params)


@given(family=st.sampled_from(sorted(ENTRIES)), changes=st.dictionaries(st.sampled_from(KEYS), JUNK, max_size=3))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(family="vit", changes={"patch_size": 100_000})
@example(family="vit", changes={"patch_size": 0})
@example(family="vit", changes={"image_size": [], "patch_size": [16, 16]})
@example(family="whisper", changes={"encoder_attention_heads": 7})
@example(family="llama4_text", changes={"moe_layers": [-1, 10**30, 3], "num_experts_per_tok": 10**9})
@example(family="qwen2_moe", changes={"mlp_only_layers": list(range(10_000))})
@example(family="deepseek_v2", changes={"first_k_dense_replace": 60, "q_lora_rank": 0})
@example(family="chatglm", changes={"multi_query_group_num": 10**9})
@example(family="llama", changes={"head_dim": 100_001})
@example(family="gpt2", changes={"n_head": 100_000})
def test_any_change_of_a_published_configuration(path, family, changes):
    model_or_one_line(path, {**ENTRIES[family], **changes})


@given(
    changes=st.dictionaries(st.sampled_from([*KEYS, "num_experts", "num_local_experts"]), JUNK, max_size=6),
    params=PARAMS,
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(changes={"num_experts": 3, "num_experts_per_tok": 0}, params="7B")
@example(changes={"hidden_size": 1, "num_attention_heads": 100_000}, params="7B")
def test_any_unknown_architecture(path, changes, params):
    model_or_one_line(path, {"model_type": "novelty", **changes}, params)


@given(
    tower=st.sampled_from([*sorted(TOWERS), "unheard_of"]),
    changes=st.dictionaries(
        st.sampled_from(["hidden_size", "image_size", "patch_size", "depth", "embed_dim", "num_hidden_layers"]),
        JUNK,
        max_size=3,
    ),
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(tower="clip_vision_model", changes={"patch_size": 100_000})
def test_any_vision_tower(path, tower, changes):
    model_or_one_line(
        path, {"model_type": "x", "text_config": ENTRIES["llama"], "vision_config": {"model_type": tower, **changes}}
    )


@pytest.mark.parametrize("depth", [10, 500, 100_000])
def test_deep_nesting(path, depth):
    for opening, closing in (('{"text_config": ', "}"), ("[", "]")):
        path.write_text(opening * depth + "1" + closing * depth, encoding="utf-8")
        with pytest.raises(InputError) as error:
            read_model(str(path))
        assert len(str(error.value).splitlines()) == 1
