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
GPT = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "vocab_size": 320}
SEQ2SEQ = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 128,
    "vocab_size": 320,
}
LLAMA4 = {**BASE, "intermediate_size_mlp": 160, "num_local_experts": 4, "num_experts_per_tok": 1, "head_dim": 16}
# families whose configurations have the standard names
PLAIN = (
    "ministral3",
    "glm",
    "glm4",
    "granite",
    "smollm3",
    "seed_oss",
    "ernie4_5",
    "exaone4",
    "cohere",
    "cohere2",
    "olmo",
    "olmo2",
    "olmo3",
    "nemotron",
    "stablelm",
    "starcoder2",
    "phi",
)
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
    "t5-decoder": ("t5", {**T5, "num_decoder_layers": None}),
    "mt5": ("mt5", {**T5, "feed_forward_proj": "gated-gelu"}),
    "umt5": ("umt5", {**T5, "feed_forward_proj": "gated-gelu"}),
    "bart": ("bart", SEQ2SEQ),
    "mbart": ("mbart", SEQ2SEQ),
    "pegasus": ("pegasus", SEQ2SEQ),
    "marian": ("marian", SEQ2SEQ),
    "blenderbot": ("blenderbot", SEQ2SEQ),
    "m2m-100": ("m2m_100", SEQ2SEQ),
    "whisper": ("whisper", {**SEQ2SEQ, "num_mel_bins": 20, "max_source_positions": 50, "max_target_positions": 30}),
    "distilbert": (
        "distilbert",
        {"dim": 64, "hidden_dim": 96, "n_layers": 3, "n_heads": 4, "vocab_size": 320, "max_position_embeddings": 128},
    ),
    "modernbert": ("modernbert", BASE),
    "modernbert-biases": ("modernbert", {**BASE, "attention_bias": True, "mlp_bias": True, "norm_bias": True}),
    "vit": ("vit", {**BASE, "image_size": 32, "patch_size": 8, "num_labels": 7}),
    "vit-no-bias": ("vit", {**BASE, "image_size": 32, "patch_size": 8, "qkv_bias": False}),
    "falcon-7b-like": ("falcon", {**BASE, "multi_query": True, "parallel_attn": True, "bias": False}),
    "falcon-40b-like": ("falcon", {**BASE, "new_decoder_architecture": True, "num_kv_heads": 2, "bias": False}),
    "falcon-rw-like": ("falcon", {**BASE, "multi_query": False, "parallel_attn": False, "bias": True}),
    **{family: (family, BASE) for family in PLAIN},
    # their rotary embeddings need the head's width said
    "ministral": ("ministral", {**BASE, "head_dim": 24}),
    "hunyuan": ("hunyuan_v1_dense", {**BASE, "head_dim": 24}),
    "cohere-norms": ("cohere", {**BASE, "use_qk_norm": True}),
    "glm4-moe": ("glm4_moe", {**LATENT, "head_dim": 16, "attention_bias": True, "use_qk_norm": True}),
    "dots1": ("dots1", LATENT),
    "gpt-bigcode": ("gpt_bigcode", GPT),
    "gpt-bigcode-many-heads": ("gpt_bigcode", {**GPT, "multi_query": False, "n_inner": 96}),
    "gpt-neo": ("gpt_neo", {**BASE, "num_layers": 3, "attention_types": [[["global"], 3]], "intermediate_size": None}),
    "gptj": ("gptj", {**GPT, "rotary_dim": 8}),
    "codegen": ("codegen", {**GPT, "rotary_dim": 8}),
    "bloom": ("bloom", {"hidden_size": 64, "n_layer": 3, "n_head": 4, "vocab_size": 320}),
    "mpt": ("mpt", {"d_model": 64, "n_layers": 3, "n_heads": 4, "max_seq_len": 128, "vocab_size": 320}),
    "mixtral-like": ("phimoe", {**BASE, "num_local_experts": 4, "num_experts_per_tok": 2, "lm_head_bias": True}),
    "olmoe": ("olmoe", {**BASE, "num_experts": 4, "num_experts_per_tok": 2}),
    "granitemoe": ("granitemoe", {**BASE, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "gpt-oss": ("gpt_oss", {**BASE, "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 24}),
    "llama4": ("llama4_text", LLAMA4),
    "llama4-every-second": ("llama4_text", {**LLAMA4, "interleave_moe_layer_step": 2}),
    "llama4-listed": ("llama4_text", {**LLAMA4, "moe_layers": [0, 2]}),
}
# not in transformers: the code stands beside the weights
ELSEWHERE = {"internlm2", "baichuan", "chatglm"}
MODELS = {
    "bert": "AutoModel",
    "roberta": "AutoModel",
    "distilbert": "AutoModel",
    "modernbert": "AutoModel",
    "vit": "AutoModelForImageClassification",
    "whisper": "AutoModelForSpeechSeq2Seq",
    **dict.fromkeys(
        ("t5", "mt5", "umt5", "bart", "mbart", "pegasus", "marian", "blenderbot", "m2m_100"), "AutoModelForSeq2SeqLM"
    ),
}
# T5Config of transformers 5 ties the output matrix whatever the file says; the saved models hold it apart
UNTIED = {"flan-t5-small", "flan-t5-base", "flan-t5-large", "flan-t5-xl", "flan-t5-xxl"}


def real_count(model_type: str, values: dict) -> int:
    config = transformers.AutoConfig.for_model(model_type, **{**NO_TOKENS, **values})
    auto = getattr(transformers, MODELS.get(model_type, "AutoModelForCausalLM"))
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
