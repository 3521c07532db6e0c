"""Keys that a configuration leaves out, sets to null or flips: what Transformers builds of it, and what is said."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest
from architecture_cases import BASE, CASES, ELSEWHERE, LATENT, count, real_count, torch, transformers

from zeroconf.errors import InputError
from zeroconf.inputs.architectures import spec_from_config
from zeroconf.inputs.architectures.class_values import DATA, class_values, release
from zeroconf.inputs.config_json import Config

sys.path.insert(0, str(Path(__file__).parents[2] / "schemas"))
import write_class_values

FAMILIES = {model_type: values for model_type, values in reversed(CASES.values()) if model_type not in ELSEWHERE}
# T5Config of transformers 5 ties the output matrix whatever the file says; the saved models hold it apart
DECIDED = {(family, "tie_word_embeddings") for family in ("t5", "mt5", "umt5")}


def changes(model_type: str, values: dict):
    """Without each key, with null in its place, and with the class's flags turned."""
    config_class = transformers.CONFIG_MAPPING[model_type]
    defaults = {name: field.default for name, field in config_class.__dataclass_fields__.items()}
    for key in values:
        yield key, {name: value for name, value in values.items() if name != key}
        yield key, {**values, key: None}
    for key, default in defaults.items():
        if isinstance(default, bool) and (model_type, key) not in DECIDED:
            yield key, {**values, key: not default}
        elif key in class_values(model_type):
            yield key, {**values, key: None}


def built(model_type: str, values: dict) -> int | None:
    try:
        return real_count(model_type, values)
    except Exception:  # noqa: BLE001  (transformers refuses with errors of every kind)
        return None


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_each_key_left_out_null_or_flipped_is_what_transformers_makes_of_it(model_type):
    compared = 0
    for key, values in changes(model_type, FAMILIES[model_type]):
        try:
            ours = count(model_type, values)
        except InputError:
            # no other model in silence
            continue
        real = built(model_type, values)
        assert real in {None, ours}, (key, values)
        compared += real is not None
    assert compared >= 4


GPT2, BART, MARIAN, VIT = (CASES[name][1] for name in ("gpt2", "bart", "marian", "vit"))
FLAGS = {
    "stablelm-2-12b": ("stablelm", BASE, {"qk_layernorm": True, "use_parallel_residual": True}),
    "phi-norms": ("phi", BASE, {"qk_layernorm": True}),
    "deepseek-biases": ("deepseek_v3", LATENT, {"attention_bias": True}),
    "deepseek-plain-queries": ("deepseek_v2", {**LATENT, "q_lora_rank": None}, {"attention_bias": True}),
    "deepseek-v2-biases": ("deepseek_v2", LATENT, {"mlp_bias": True}),
    "gpt2-cross": ("gpt2", GPT2, {"add_cross_attention": True}),
    "bigcode-cross": ("gpt_bigcode", GPT2, {"add_cross_attention": True, "multi_query": False}),
    "bart-untied": ("bart", BART, {"tie_word_embeddings": False}),
    "marian-two": ("marian", MARIAN, {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 400}),
    "marian-untied": ("marian", MARIAN, {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}),
    "t5-act": ("t5", CASES["t5"][1], {"is_gated_act": True}),
    "vit-wide": ("vit", VIT, {"image_size": [32, 64]}),
}


@pytest.mark.parametrize("case", FLAGS)
def test_what_flags_add_is_counted(case):
    model_type, values, flags = FLAGS[case]
    assert count(model_type, {**values, **flags}) == real_count(model_type, {**values, **flags})
    assert count(model_type, {**values, **flags}) != count(model_type, values)


def notes(values: dict) -> str:
    return " ".join(spec_from_config(Config(values, "test"), "test", "test").assumptions)


def test_what_the_class_fills_in_is_said():
    values = {"model_type": "deepseek_v3", **LATENT}
    del values["q_lora_rank"]
    assert f"leaves out q_lora_rank 1536: the values of transformers' deepseek_v3 class, {release()}" in notes(values)
    assert "leaves out" not in notes({"model_type": "deepseek_v3", **LATENT})
    # a null is no key left out: the class makes plain queries of it
    assert "leaves out" not in notes({**values, "q_lora_rank": None})


def test_a_class_value_that_cannot_be_meant_names_the_key():
    with pytest.raises(InputError, match="'num_key_value_heads' is missing; the 32 of transformers' class do not div"):
        count("qwen3", {key: value for key, value in BASE.items() if key != "num_key_value_heads"})


def test_a_quantised_checkpoint_is_said_to_be_planned_in_16_bits():
    values = {"model_type": "llama", **BASE, "quantization_config": {"quant_method": "gptq", "bits": 4}}
    assert "quantised" in notes(values)
    assert "--quantize" in notes(values)
    nested = {"model_type": "llava", "text_config": {"model_type": "llama", **BASE, "quantization_config": {}}}
    assert "quantised" in notes(nested)
    assert "quantised" not in notes({"model_type": "llama", **BASE, "quantization_config": None})


def test_an_image_size_that_transformers_refuses_is_named():
    with pytest.raises(InputError, match="'image_size' must be a side in pixels or a pair of sides"):
        count("vit", {**CASES["vit"][1], "image_size": {"height": 32, "width": 32}})


def test_class_values_are_those_of_the_release_that_they_name():
    if transformers.__version__ != release():
        pytest.skip("another transformers")
    assert json.loads(DATA.read_text("utf-8")) == json.loads(write_class_values.text())
    assert DATA.read_text("utf-8") == write_class_values.text(), "run python schemas/write_class_values.py"


# whole models, and where the language part's parameters stand in them
VISION = {
    "qwen3_vl_moe": ("qwen3_vl_moe_text", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}),
    "mistral3": ("mistral", {}),
    "internvl": ("qwen2", {}),
    "gemma3": ("gemma3_text", {"head_dim": 16}),
    "llama4": ("llama4_text", {"intermediate_size_mlp": 160, "num_local_experts": 4, "head_dim": 16}),
    "blip-2": ("opt", {"ffn_dim": 96}),
    "llava": ("llama", {}),
    "llava_next": ("llama", {}),
    "qwen2_vl": ("qwen2_vl_text", {}),
}
LANGUAGE = ("language_model", "lm_head")


def real_language_part(values: dict) -> int:
    given = dict(values)
    config = transformers.AutoConfig.for_model(given.pop("model_type"), **given)
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(config)
    return sum(
        parameter.numel() for name, parameter in model.named_parameters() if any(part in name for part in LANGUAGE)
    )


@pytest.mark.parametrize("model_type", VISION)
def test_the_class_that_holds_the_output_matrix_decides_whether_it_is_tied(model_type):
    text_type, own = VISION[model_type]
    text = {"model_type": text_type, **BASE, **own, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
    for outer, inner in itertools.product(({}, *({"tie_word_embeddings": tied} for tied in (True, False))), repeat=2):
        values = {"model_type": model_type, "text_config": {**text, **inner}, **outer}
        spec = spec_from_config(Config(values, "test"), "test", "test")
        assert spec.num_parameters == real_language_part(values), (outer, inner)
