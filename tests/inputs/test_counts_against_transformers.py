"""Parameter counts: the catalogue against its published figures, and each family against Transformers itself."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroconf.inputs import catalogue
from zeroconf.inputs.architectures import spec_from_config
from zeroconf.inputs.architectures.read import FAMILIES
from zeroconf.inputs.config_json import Config

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    import transformers

BASE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 320,
    "max_position_embeddings": 128,
}
NO_TOKENS = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
MOE = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
T5 = {"d_model": 64, "d_kv": 8, "d_ff": 96, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4, "vocab_size": 320}
LATENT = {
    **BASE,
    "num_key_value_heads": 4,
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 12,
    "n_group": 1,
    "topk_group": 1,
}

CASES = {
    "llama": ("llama", BASE),
    "llama-biases-tied": ("llama", {**BASE, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "llama-head-dim": ("llama", {**BASE, "head_dim": 24}),
    "mistral": ("mistral", BASE),
    "qwen2": ("qwen2", BASE),
    "qwen3": ("qwen3", {**BASE, "head_dim": 32}),
    "gemma": ("gemma", {**BASE, "head_dim": 32}),
    "gemma2": ("gemma2", {**BASE, "head_dim": 32}),
    "gemma3": ("gemma3_text", {**BASE, "head_dim": 32}),
    "phi3": ("phi3", BASE),
    "mixtral": ("mixtral", {**BASE, "num_local_experts": 5, "num_experts_per_tok": 2}),
    "qwen2-moe": (
        "qwen2_moe",
        {**BASE, **MOE, "shared_expert_intermediate_size": 48, "decoder_sparse_step": 2, "mlp_only_layers": [1]},
    ),
    "qwen3-moe": ("qwen3_moe", {**BASE, **MOE, "head_dim": 32, "mlp_only_layers": [0]}),
    "deepseek-v3": ("deepseek_v3", LATENT),
    "deepseek-v2-plain-queries": ("deepseek_v2", {**LATENT, "q_lora_rank": None}),
    "gpt2": ("gpt2", {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "vocab_size": 320}),
    "gpt-neox": ("gpt_neox", BASE),
    "gpt-neox-no-bias": ("gpt_neox", {**BASE, "attention_bias": False, "tie_word_embeddings": True}),
    "opt": ("opt", {**BASE, "ffn_dim": 96, "word_embed_proj_dim": 64}),
    "opt-350m-like": ("opt", {**BASE, "ffn_dim": 96, "word_embed_proj_dim": 32, "do_layer_norm_before": False}),
    "bert": ("bert", BASE),
    "roberta": ("roberta", {**BASE, "type_vocab_size": 1}),
    "t5": ("t5", T5),
    "t5-gated": ("t5", {**T5, "feed_forward_proj": "gated-gelu"}),
    "falcon-7b-like": ("falcon", {**BASE, "multi_query": True, "parallel_attn": True, "bias": False}),
    "falcon-40b-like": ("falcon", {**BASE, "new_decoder_architecture": True, "num_kv_heads": 2, "bias": False}),
    "falcon-rw-like": ("falcon", {**BASE, "multi_query": False, "parallel_attn": False, "bias": True}),
}


def real_count(model_type: str, values: dict) -> int:
    config = transformers.AutoConfig.for_model(model_type, **{**NO_TOKENS, **values})
    if model_type in {"bert", "roberta"}:
        auto = transformers.AutoModel
    elif model_type == "t5":
        auto = transformers.AutoModelForSeq2SeqLM
    else:
        auto = transformers.AutoModelForCausalLM
    with torch.device("meta"):
        model = auto.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def count(model_type: str, values: dict) -> int:
    return spec_from_config(Config({"model_type": model_type, **values}, "test"), "test", "test").num_parameters


@pytest.mark.parametrize("case", CASES)
def test_counts_are_those_of_the_real_module(case):
    model_type, values = CASES[case]
    assert count(model_type, values) == real_count(model_type, values)


def test_every_family_is_compared():
    assert set(FAMILIES) - {"xlm-roberta"} == {model_type for model_type, _ in CASES.values()}


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
    key = next(key for key in ("num_hidden_layers", "n_layer", "num_layers") if key in values)
    fixed = {"mlp_only_layers": [], "first_k_dense_replace": 1}
    fewer = count(model_type, {**values, **fixed, key: layers})
    more = count(model_type, {**values, **fixed, key: layers + 1})
    assert more > fewer
