"""What PyTorch, peft and DeepSpeed cost the host: ``python benchmarks/host_floor.py``.

Trains Llamas of 4 and 12 blocks so narrow that their arithmetic takes no time, on one rank of the CPU: without
DeepSpeed, plain, checkpointed and with adapters beside all seven matrices of a block, and at each stage. Takes the
processor time that each further block of nine parameters costs a micro step and an optimizer step. Writes
``results/host-floor-DATE.json``; ``zeroconf/rates.py`` holds the constants.
"""

from __future__ import annotations

import json
import logging
import os
import time
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.update(
    DS_ACCELERATOR="cpu", MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"
)

import deepspeed
import torch
import torch.distributed as dist
from peft import LoraConfig, get_peft_model
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import LlamaConfig, LlamaForCausalLM

if TYPE_CHECKING:
    from collections.abc import Callable

    Build = partial[tuple[Callable[[], None], Callable[[], None]]]

RESULTS = Path(__file__).parent / "results"
BLOCKS = (4, 12)
MICRO_STEPS = 4
REPEATS = 40
TOKENS = torch.randint(0, 64, (1, 4))


def narrow(blocks: int, *, checkpointing: bool = False) -> LlamaForCausalLM:
    """A Llama of width 32."""
    config = LlamaConfig(
        num_hidden_layers=blocks,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=64,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16).train()
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": True})
        model.enable_input_require_grads()
    return model


def plain(
    blocks: int, *, adapters: bool = False, checkpointing: bool = False
) -> tuple[Callable[[], None], Callable[[], None]]:
    """A micro step and an optimizer step without DeepSpeed."""
    model: torch.nn.Module = narrow(blocks, checkpointing=checkpointing)
    if adapters:
        model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
        model = model.to(torch.bfloat16).train()
    optimizer = torch.optim.AdamW(model.parameters())

    def micro() -> None:
        model(input_ids=TOKENS, labels=TOKENS, use_cache=False).loss.backward()

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()

    return micro, step


def engine(blocks: int, stage: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """A micro step and an optimizer step of DeepSpeed; no parameter stays gathered at stage 3."""
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": MICRO_STEPS,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
    }
    built, *_ = deepspeed.initialize(model=narrow(blocks), config=config)

    def micro() -> None:
        built.backward(built(input_ids=TOKENS, labels=TOKENS, use_cache=False).loss)

    return micro, built.step


def seconds(build: Build, blocks: int) -> tuple[float, float]:
    """The least processor time of the micro steps of one step, and of its optimizer step.

    DeepSpeed's step is called after each micro step.
    """
    micro, step = build(blocks)
    each = "stage" in build.keywords
    micros, steps = [], []
    for _ in range(REPEATS):
        spent = 0.0
        for index in range(MICRO_STEPS):
            began = time.process_time()
            micro()
            spent += time.process_time() - began
            began = time.process_time()
            if each or index == MICRO_STEPS - 1:
                step()
        micros.append(spent)
        steps.append(time.process_time() - began)
    return min(micros[2:]), min(steps[2:])


def per_block(build: Build) -> dict[str, float]:
    """Milliseconds that one more block costs."""
    (few_micros, few_step), (many_micros, many_step) = (seconds(build, blocks) for blocks in BLOCKS)
    more = BLOCKS[1] - BLOCKS[0]
    return {
        "micro_step_ms": round((many_micros - few_micros) / more / MICRO_STEPS * 1e3, 3),
        "optimizer_step_ms": round((many_step - few_step) / more * 1e3, 3),
    }


def main() -> None:
    """Measures, prints and writes."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # nothing to compile for one rank
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    deepspeed.init_distributed(dist_backend="fake")
    builds = {
        "without DeepSpeed": partial(plain),
        "adapters": partial(plain, adapters=True),
        "checkpointing": partial(plain, checkpointing=True),
        "adapters, checkpointing": partial(plain, adapters=True, checkpointing=True),
        **{f"stage {stage}": partial(engine, stage=stage) for stage in range(4)},
    }
    found = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "versions": {name: version(name) for name in ("deepspeed", "peft", "torch", "transformers")},
        "blocks": {name: per_block(build) for name, build in builds.items()},
    }
    text = json.dumps(found, indent=1)
    print(text)
    (RESULTS / f"host-floor-{found['date']}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
