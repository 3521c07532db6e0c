"""What bitsandbytes, peft and DeepSpeed hold of packed weights and 8-bit states is what the estimate counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from builders import ORACLE_LLAMA, cluster, plan, workload

from zeroconf.estimate.sizes import sizes
from zeroconf.inputs.lora import with_lora

pytest.importorskip("bitsandbytes")

HERE = Path(__file__).parent
MODEL = replace(ORACLE_LLAMA, num_layers=4, vocab_size=1024, num_parameters=3_737_856, num_active_parameters=3_737_856)
OPTIMIZERS = {"adamw-8bit": "AdamW8bit", "lion-8bit": "Lion8bit"}
CASES = [
    (0, None, "adamw-8bit"),
    (2, None, "lion-8bit"),
    (3, None, "adamw-8bit"),
    (1, "nf4", "adamw-8bit"),
    (2, "nf4-double", "adamw-8bit"),
    (3, "nf4", "lion-8bit"),
]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What each case's tensors take, and what was said."""
    folders = [str(tmp_path_factory.mktemp("model")) for _ in CASES]
    lines = [
        json.dumps([stage, quantize, OPTIMIZERS[optimizer], folder]) + "\n"
        for (stage, quantize, optimizer), folder in zip(CASES, folders, strict=True)
    ]
    ran = subprocess.run(
        [sys.executable, HERE / "quantized_rank.py"],
        input="".join(lines),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert ran.returncode == 0, ran.stderr
    answers = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"built"') or line == "null"]
    return dict(zip(CASES, answers, strict=True)), ran.stderr


@pytest.mark.parametrize(("stage", "quantize", "optimizer"), CASES)
def test_bytes_on_a_rank(stage, quantize, optimizer, measured):
    real = measured[0][stage, quantize, optimizer]
    assert real, measured[1][-3000:]
    adapters = with_lora(MODEL, 8) if quantize else None
    load = workload(
        optimizer=optimizer, quantize=quantize, lora_rank=8 if quantize else None, trainable_parameters=adapters
    )
    s = sizes(MODEL, cluster(), load, plan(stage, zero_init=False))
    assert s.trainable == real["trainable"]
    after = real["after"]
    assert after.get("absmax", 0) == s.absmax_bytes
    held = s.total if stage < 3 else s.shard + s.frozen_shard
    assert after.get("packed", 0) + after["others"] == pytest.approx(s.element_bytes * held, rel=1e-3)
    if quantize:
        assert real["built"] - after.get("absmax", 0) == s.built_bytes
    # at stage 0 norms keep fp32 states, as tensors of fewer than 4096 elements do
    assert real["states"] == pytest.approx(s.moments_bytes, rel=0.005 if stage == 0 else 0)
