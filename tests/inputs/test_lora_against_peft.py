from __future__ import annotations

import warnings

import pytest

from zeroconf.errors import InputError
from zeroconf.inputs.architectures import spec_from_config
from zeroconf.inputs.config_json import Config
from zeroconf.inputs.model import read_model, with_lora

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import peft
    import transformers

BASE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 64,
}
CASES = {
    "llama": BASE,
    "qwen2": BASE,
    "qwen3": {**BASE, "head_dim": 32},
    "phi3": BASE,
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 100},
    "gpt_neox": BASE,
    "opt": {**BASE, "ffn_dim": 96, "word_embed_proj_dim": 64},
    "falcon": BASE,
    "mixtral": {**BASE, "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {**BASE, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 16},
    "glm": {**BASE, "head_dim": 16},
    "starcoder2": BASE,
    "phi": BASE,
    "olmo2": BASE,
    "bloom": {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100},
    "mpt": {"d_model": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 100},
    "gpt_oss": {**BASE, "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16},
    "t5": {"d_model": 64, "d_kv": 8, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 100},
}


@pytest.mark.parametrize("model_type", CASES)
@pytest.mark.filterwarnings("ignore")
def test_adapters_are_as_large_as_pefts(model_type):
    values = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None, **CASES[model_type]}
    config = transformers.AutoConfig.for_model(model_type, **values)
    seq2seq = model_type == "t5"
    auto = transformers.AutoModelForSeq2SeqLM if seq2seq else transformers.AutoModelForCausalLM
    lora = peft.LoraConfig(r=4, target_modules="all-linear", task_type="SEQ_2_SEQ_LM" if seq2seq else "CAUSAL_LM")
    model = peft.get_peft_model(auto.from_config(config), lora)
    real = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    spec = spec_from_config(Config({"model_type": model_type, **CASES[model_type]}, "test"), "test", "test")
    assert with_lora(spec, 4) == real


def test_llama_8b_at_rank_16_by_hand():
    per_layer = (4096 + 4096) * 2 + (4096 + 1024) * 2 + 3 * (4096 + 14336)
    assert with_lora(read_model("llama-3.1-8b"), 16) == 32 * 16 * per_layer == 41_943_040


@pytest.mark.parametrize("rank", [0, -1, 4097])
def test_absurd_ranks_are_refused(rank):
    with pytest.raises(InputError, match="out of range"):
        with_lora(read_model("llama-7b"), rank)
