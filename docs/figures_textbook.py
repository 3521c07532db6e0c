"""The textbook's bytes and elements beside DeepSpeed's, from the public functions."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from write_rules import table

from zeroconf import api
from zeroconf.estimate.rules_of_thumb import STAGES, model_state_bytes, traffic_elements

_GPUS = 8
_PARAMETERS = 7e9
_FUSED_ADAM = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}


def textbook() -> str:
    """Stage by stage, for 7B on 8 GPUs."""
    rows = []
    for stage in STAGES:
        held_by_textbook = model_state_bytes(_PARAMETERS, _GPUS, stage)
        (_, sent_once), (fused, sent) = (_deepspeed(stage, micro_steps, _FUSED_ADAM) for micro_steps in (1, 16))
        trainers, _ = _deepspeed(stage, 16, {})
        cells = [
            f"{stage} | {held_by_textbook / _PARAMETERS:g} | {held_by_textbook / 1e9:g} GB | {fused} | {trainers}",
            f"{traffic_elements(_PARAMETERS, stage) / _PARAMETERS:g}P | {sent_once:.1f}P | {sent:.1f}P",
        ]
        rows.append(" | ".join(cells))
    return table(
        "stage | textbook: bytes per parameter | in all | DeepSpeed: bytes per parameter (when), FusedAdam | torch's "
        "fused AdamW | textbook: sent | DeepSpeed: sent | with 16 micro steps",
        rows,
    )


def _deepspeed(stage: int, micro_steps: int, optimizer: dict[str, Any]) -> tuple[str, float]:
    """What DeepSpeed's defaults hold of 7B beside activations and the context, and what they send, per parameter.

    What one of 8 GPUs sends is scaled to many GPUs, as the textbook counts.
    """
    written = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": micro_steps,
        "bf16": {"enabled": True},
        **optimizer,
        "zero_optimization": {"stage": stage},
    }
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "ds_config.json"
        config.write_text(json.dumps(written), encoding="utf-8")
        facts, _ = api.load_facts({"model": "7B", "hardware": f"{_GPUS}xA100-80GB"})
        facts, (cost,) = api.estimate(facts, config)
    held = {moment: one.total - one.activations - one.logits - one.overhead for moment, one in cost.gpu.moments.items()}
    most = max(held, key=lambda moment: held[moment])
    sent = sum(one.elements for one in cost.traffic.per_collective) * _GPUS / (_GPUS - 1)
    parameters = facts.model.num_parameters
    return f"{held[most] / parameters:.1f} ({most})", sent / parameters
