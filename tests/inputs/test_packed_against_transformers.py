"""Which weights are packed: the linear layers that Transformers' own selection names, on the meta device."""

from __future__ import annotations

import pytest
import torch
import transformers
from transformers.pytorch_utils import Conv1D
from transformers.quantizers.base import get_keys_to_not_convert
from transformers.quantizers.quantizers_utils import should_convert_module

from zeroconf.estimate.packed import packed_weights
from zeroconf.inputs.model import read_model

SMALL = {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 512, "num_attention_heads": 4}
CONFIGS = {
    "llama": {**SMALL, "intermediate_size": 176, "num_key_value_heads": 2, "tie_word_embeddings": False},
    "qwen2": {**SMALL, "intermediate_size": 176, "num_key_value_heads": 2, "tie_word_embeddings": True},
    "gemma2": {**SMALL, "intermediate_size": 176, "num_key_value_heads": 2, "head_dim": 16},
    "phi3": {**SMALL, "intermediate_size": 176, "num_key_value_heads": 2, "pad_token_id": 0},
    "mixtral": {**SMALL, "intermediate_size": 96, "num_key_value_heads": 2, "num_local_experts": 4},
    "qwen3_moe": {
        **SMALL,
        "moe_intermediate_size": 96,
        "num_key_value_heads": 2,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "head_dim": 16,
    },
    "gpt2": {"n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 512, "n_positions": 32},
    "t5": {"d_model": 64, "d_ff": 128, "num_layers": 2, "vocab_size": 512, "num_heads": 4, "d_kv": 16},
}


def converted(model):
    """Elements of what replace_with_bnb_linear (transformers, integrations/bitsandbytes.py) replaces."""
    kept = get_keys_to_not_convert(model)
    return sum(
        module.weight.numel()
        for name, module in model.named_modules()
        if should_convert_module(name, kept) and (isinstance(module, Conv1D) or type(module) is torch.nn.Linear)
    )


@pytest.mark.parametrize("family", CONFIGS)
def test_packed_weights(family, tmp_path):
    config = transformers.AutoConfig.for_model(family, **CONFIGS[family])
    auto = transformers.AutoModelForSeq2SeqLM if family == "t5" else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        real = converted(auto.from_config(config))
    config.architectures = ["T5ForConditionalGeneration"] if family == "t5" else None
    config.save_pretrained(tmp_path)
    # what has one dimension counts as packed: biases, position tables
    assert packed_weights(read_model(str(tmp_path))) == pytest.approx(real, rel=0.04)
