"""What PyTorch and DeepSpeed cost the host: ``python benchmarks/host_floor.py``.

Trains Llamas of 4 and 12 blocks so narrow that their arithmetic takes no time, on one rank of the CPU, without
DeepSpeed and at each stage, and takes the processor time that each further block of nine parameters costs a micro
step and an optimizer step. Writes ``results/host-floor-DATE.json``; ``zeroconf/rates.py`` holds the constants.
"""

from __future__ import annotations

import json
import logging
import os
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.update(
    DS_ACCELERATOR="cpu", MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1"
)

import deepspeed
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import LlamaConfig, LlamaForCausalLM

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).parent / "results"
BLOCKS = (4, 12)
MICRO_STEPS = 4
REPEATS = 6
TOKENS = torch.randint(0, 64, (1, 4))


def narrow(blocks: int) -> LlamaForCausalLM:
    """A Llama of width 32."""
    config = LlamaConfig(
        num_hidden_layers=blocks,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=64,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16).train()


def plain(blocks: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """A micro step and an optimizer step without DeepSpeed."""
    model = narrow(blocks)
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


def seconds(blocks: int, stage: int | None) -> tuple[float, float]:
    """The least processor time of the micro steps of one step, and of its optimizer step."""
    micro, step = plain(blocks) if stage is None else engine(blocks, stage)
    micros, steps = [], []
    for _ in range(REPEATS):
        spent = 0.0
        for index in range(MICRO_STEPS):
            began = time.process_time()
            micro()
            spent += time.process_time() - began
            began = time.process_time()
            if stage is not None or index == MICRO_STEPS - 1:
                step()
        micros.append(spent)
        steps.append(time.process_time() - began)
    return min(micros[2:]), min(steps[2:])


def per_block(stage: int | None) -> dict[str, float]:
    """Milliseconds that one more block costs."""
    (few_micros, few_step), (many_micros, many_step) = (seconds(blocks, stage) for blocks in BLOCKS)
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
    names = {"without DeepSpeed": None, **{f"stage {stage}": stage for stage in range(4)}}
    found = {
        "date": datetime.now(tz=UTC).date().isoformat(),
        "versions": {name: version(name) for name in ("deepspeed", "torch", "transformers")},
        "blocks": {name: per_block(stage) for name, stage in names.items()},
    }
    text = json.dumps(found, indent=1)
    print(text)
    (RESULTS / f"host-floor-{found['date']}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
