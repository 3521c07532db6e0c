"""The Trainer with a tiny Llama: --deepspeed FILE and --output_dir are its own arguments."""

import torch
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
shape = LlamaConfig(vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
ids = torch.arange(16)
data = [{"input_ids": ids, "labels": ids}] * 1000
Trainer(LlamaForCausalLM(shape), arguments, train_dataset=data).train()
