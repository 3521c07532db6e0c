"""Vision towers: what stands beside the language part, against Transformers' own modules."""

from __future__ import annotations

import warnings

import pytest

from zeroconf.inputs import catalogue
from zeroconf.inputs.architectures import spec_from_config
from zeroconf.inputs.architectures.vision import TOWERS
from zeroconf.inputs.config_json import Config

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    import transformers
    from transformers.models.llama4 import modeling_llama4
    from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl
    from transformers.models.qwen2_vl import modeling_qwen2_vl

GEMMA_3 = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "image_size": 896,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "patch_size": 14,
    "vision_use_head": False,
}
LLAVA = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "image_size": 336,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "patch_size": 14,
    "projection_dim": 768,
}
CASES = {
    "gemma-3": GEMMA_3,
    "siglip-with-head": {**GEMMA_3, "vision_use_head": True},
    "siglip-defaults": {"model_type": "siglip_vision_model"},
    "llava-1.5": LLAVA,
    "clip-defaults": {"model_type": "clip_vision_model"},
    "llama-4": {"model_type": "llama4_vision_model", "hidden_size": 1408, "image_size": 336, "num_hidden_layers": 3},
    "llama-4-defaults": {"model_type": "llama4_vision_model"},
    "pixtral": {"model_type": "pixtral"},
    "qwen2-vl": {"model_type": "qwen2_vl", "depth": 4, "embed_dim": 128, "hidden_size": 256, "num_heads": 4},
    "qwen2-vl-defaults": {"model_type": "qwen2_vl"},
    "qwen2.5-vl": {"model_type": "qwen2_5_vl", "depth": 4, "hidden_size": 128, "out_hidden_size": 256},
    "qwen2.5-vl-defaults": {"model_type": "qwen2_5_vl"},
}


def real_count(values: dict) -> int:
    values = dict(values)
    family = values.pop("model_type")
    with torch.device("meta"):
        if family == "llama4_vision_model":
            config = modeling_llama4.Llama4VisionConfig(**values)
            model = modeling_llama4.Llama4VisionModel(config)
        elif family == "qwen2_vl":
            config = modeling_qwen2_vl.Qwen2VLVisionConfig(**values)
            model = modeling_qwen2_vl.Qwen2VisionTransformerPretrainedModel(config)
        elif family == "qwen2_5_vl":
            config = modeling_qwen2_5_vl.Qwen2_5_VLVisionConfig(**values)
            model = modeling_qwen2_5_vl.Qwen2_5_VisionTransformerPretrainedModel(config)
        else:
            model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(family, **values))
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("case", CASES)
def test_towers_are_those_of_the_real_module(case):
    values = CASES[case]
    assert TOWERS[values["model_type"]](Config(values, "test")) == real_count(values)


def test_every_tower_is_compared():
    assert set(TOWERS) == {values["model_type"] for values in CASES.values()}


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vocab_size": 320,
    "max_position_embeddings": 128,
}


def notes(values: dict) -> str:
    return " ".join(spec_from_config(Config(values, "test"), "test", "test").assumptions)


def test_the_towers_share_is_said_beside_the_language_parts_count():
    said = notes({"model_type": "llava", "text_config": LLAMA, "vision_config": LLAVA})
    count = real_count(LLAVA)
    assert f"{count:,} parameters" in said
    assert f"--frozen-params {count}" in said


def test_entries_that_are_a_language_part_say_so():
    (said,) = catalogue.spec(catalogue.find("gemma-3-4b"), "google/gemma-3-4b-pt").assumptions[:1]
    assert f"(siglip_vision_model) has {real_count(GEMMA_3):,} parameters" in said
    assert "llama4_vision_model" in " ".join(
        catalogue.spec(catalogue.find("llama-4-scout"), "llama-4-scout").assumptions
    )


def test_a_tower_of_another_family_is_named_with_the_usual_size():
    said = notes({"model_type": "idefics3", "text_config": LLAMA, "vision_config": {"model_type": "unheard_of"}})
    assert "'unheard_of' is not a family that zeroconf counts" in said
    assert "0.3B to 0.7B" in said


def test_qwen_keeps_the_language_part_at_the_top():
    top = {
        **LLAMA,
        "model_type": "qwen2_vl",
        "num_key_value_heads": 2,
        "vision_config": {"depth": 4, "embed_dim": 128, "hidden_size": 64},
    }
    said = notes(top)
    assert "its tower (qwen2_vl) has" in said
    assert spec_from_config(Config(top, "test"), "test", "test").architecture == "qwen2"
