"""Rank 0 of 8 trains a small Llama with bitsandbytes under DeepSpeed, and prints what its tensors take, as JSON.

Each line of stdin is a case (stage, quantize or null, optimizer, folder), each line of stdout what became of it, in a
fork of its own: the imports, which take longer than a case, are made once.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter

import fake_world  # isort: skip  (it sets what the others read)
import bitsandbytes
import deepspeed
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM
from transformers.integrations import HfDeepSpeedConfig

WORLD_SIZE = 8
SHAPE = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 1024,
    "tie_word_embeddings": False,
}


def ds_config(stage):
    zero = {"stage": stage, "reduce_bucket_size": 1_000_000, "stage3_param_persistence_threshold": 0}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "bf16": {"enabled": True},
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
    }


def built(quantize, folder):
    """The model as a QLoRA script builds it, or whole in bf16."""
    LlamaForCausalLM(LlamaConfig(**SHAPE)).bfloat16().save_pretrained(folder)
    if quantize is None:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    packing = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=quantize == "nf4-double",
        bnb_4bit_compute_dtype=torch.bfloat16,
        bnb_4bit_quant_storage=torch.bfloat16,
    )
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, quantization_config=packing)
    model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    return get_peft_model(model, LoraConfig(r=8, target_modules="all-linear"))


def weights(model):
    """Bytes on this rank by kind: packed, the maxima of their blocks, all others."""
    found = Counter()
    for parameter in model.parameters():
        held = getattr(parameter, "ds_tensor", parameter.data)
        found["packed" if type(parameter).__name__ == "Params4bit" else "others"] += held.numel() * held.element_size()
        state = getattr(parameter, "quant_state", None)
        for scales in filter(None, (state, getattr(state, "state2", None))):
            found["absmax"] += scales.absmax.numel() * scales.absmax.element_size()
    return found


def main(stage, quantize, optimizer, folder):
    fake_world.be_rank_0_of(WORLD_SIZE)
    config = ds_config(stage)
    keep = HfDeepSpeedConfig(config) if stage == 3 else None
    model = built(quantize, folder)
    before = weights(model.train())  # bitsandbytes packs for inference otherwise
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    chosen = getattr(bitsandbytes.optim, optimizer)(trained, lr=1e-4)
    engine, *_ = deepspeed.initialize(model=model, optimizer=chosen, config=config)
    ids = torch.randint(0, SHAPE["vocab_size"], (1, 16))
    for _ in range(2):
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        engine.step()
    states = [tensor for state in chosen.state.values() for name, tensor in state.items() if name.startswith(NAMES)]
    sys.stdout.write(
        json.dumps(
            {
                "built": sum(before.values()),
                "after": weights(engine.module),
                "states": sum(tensor.numel() * tensor.element_size() for tensor in states),
                "trainable": sum(getattr(parameter, "ds_numel", parameter.numel()) for parameter in trained),
            }
        )
        + "\n"
    )
    sys.stdout.flush()
    del keep


NAMES = ("state1", "state2", "absmax1", "absmax2")

for line in sys.stdin:
    if (child := os.fork()) == 0:
        try:
            main(*json.loads(line))
        except BaseException:  # noqa: BLE001  (a fork must not go on with the parent's lines)
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.stdout.write("null\n")
