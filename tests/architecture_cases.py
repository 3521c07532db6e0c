"""A small configuration of each architecture, counted by us and by Transformers on the meta device."""

from __future__ import annotations

import warnings

from zeroconf.inputs.architectures import spec_from_config
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
    "llama4-without-experts": ("llama4_text", {**LLAMA4, "moe_layers": []}),
    "qwen3-moe-without-experts": ("qwen3_moe", {**BASE, **MOE, "head_dim": 32, "mlp_only_layers": [0, 1, 2]}),
    "qwen3-moe-no-exceptions": ("qwen3_moe", {**BASE, **MOE, "head_dim": 32, "mlp_only_layers": []}),
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


def real_count(model_type: str, values: dict) -> int:
    config = transformers.AutoConfig.for_model(model_type, **{**NO_TOKENS, **values})
    auto = getattr(transformers, MODELS.get(model_type, "AutoModelForCausalLM"))
    with torch.device("meta"):
        model = auto.from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def count(model_type: str, values: dict) -> int:
    return spec_from_config(Config({"model_type": model_type, **values}, "test"), "test", "test").num_parameters
