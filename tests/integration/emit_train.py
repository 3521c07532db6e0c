"""A user's training program for the launch tests, on CPU processes.

The environment says how (``READER``: trainer or accelerate) and where rank 0's result goes (``RESULT``).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ |= {"DS_ACCELERATOR": "cpu", "TRANSFORMERS_VERBOSITY": "error"}

import deepspeed
import torch
import torch._dynamo  # inside zero.Init its import fails
from transformers import AutoConfig, AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else a minute of compiling
torch.set_num_threads(1)


def tiny_llama() -> torch.nn.Module:
    torch.manual_seed(0)
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 128}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64}
    return AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", use_cache=False, **shape, **heads))


def batches() -> list[dict[str, torch.Tensor]]:
    tokens = torch.arange(32) % 16
    return [{"input_ids": tokens, "labels": tokens} for _ in range(64)]


def with_trainer(arguments: list[str]) -> dict[str, object]:
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(arguments)
    trainer = Trainer(model=tiny_llama(), args=args, train_dataset=batches())
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    trainer.save_model()
    return {"losses": losses, **engine_facts(trainer.model_wrapped)}


def with_accelerate(arguments: list[str]) -> dict[str, object]:
    from accelerate import Accelerator, InitProcessGroupKwargs  # noqa: PLC0415  (only this mode needs it)

    accelerator = Accelerator(kwargs_handlers=[InitProcessGroupKwargs(backend="gloo")])
    model = tiny_llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = torch.utils.data.DataLoader(batches(), batch_size=int(arguments[0]))
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    losses = []
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return {"losses": losses, **engine_facts(model)}


def engine_facts(engine: deepspeed.DeepSpeedEngine) -> dict[str, object]:
    return {
        "engine": type(engine).__name__,
        "stage": engine.zero_optimization_stage(),
        "world_size": torch.distributed.get_world_size(),
        "train_batch_size": engine.train_batch_size(),
        "bf16": engine.bfloat16_enabled(),
        "clipping": engine.gradient_clipping(),
    }


result = {"trainer": with_trainer, "accelerate": with_accelerate}[os.environ["READER"]](sys.argv[1:])
if torch.distributed.get_rank() == 0:
    Path(os.environ["RESULT"]).write_text(json.dumps(result), encoding="utf-8")
torch.distributed.destroy_process_group()
# Not by Python's own end: DeepSpeed still holds the groups, and a gloo thread that frees its last tensor while the
# interpreter is being torn down aborts the process (github.com/pytorch/pytorch/pull/179291; seen in 2 of 29 runs).
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
