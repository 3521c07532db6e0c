"""Saved bytes by hand, and against the models themselves on fake tensors (benchmarks/activations.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from builders import LLAMA_3_8B, workload

from zeroconf.estimate import activations, blocks
from zeroconf.estimate.families import family_of

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "activations.py"
H, INNER, Q, KV, HEADS = 4096, 14336, 4096, 1024, 32


def test_a_llama_block_tensor_by_tensor():
    norms = 2 * ((4 + 2 + 2) * H + 4)  # fp32 copy, normalised, output; one fp32 number
    attention = 2 * (2 * Q + 2 * KV) + 4 * HEADS
    mlp = 4 * 2 * INNER  # gate, its activation, up, their product
    expected = (norms + attention + mlp) * 4096
    assert activations.layer_bytes(LLAMA_3_8B, workload(), 1) == expected == 822_640_640


def test_sdpa_in_half_precision_is_flash_attention_and_in_fp32_with_grouped_heads_it_is_not():
    assert blocks.kernel_of(LLAMA_3_8B, workload(attention="sdpa"), 2) == "flash"
    assert blocks.kernel_of(LLAMA_3_8B, workload(attention="sdpa"), 4) == "scores"
    assert blocks.kernel_of(replace(LLAMA_3_8B, num_key_value_heads=HEADS), workload(attention="sdpa"), 4) == (
        "efficient"
    )


def test_adapters_at_stage_3_keep_fp32_copies_of_their_inputs():
    lora = workload(lora_rank=16, trainable_parameters=20_971_520)
    # 7 adapters read 5 widths, the heads and the MLP; two norms need nothing for the gradients of frozen weights
    frozen = -2 * 2 * H * 4096
    assert activations.adapter_bytes(LLAMA_3_8B, lora, 1, stage=2) == frozen
    assert activations.adapter_bytes(LLAMA_3_8B, lora, 1, stage=3) == frozen + 4 * (5 * H + Q + INNER) * 4096
    assert activations.adapter_bytes(LLAMA_3_8B, workload(), 1, stage=3) == 0


def test_unknown_names_are_taken_by_their_kind():
    unknown = replace(LLAMA_3_8B, architecture="dense-decoder")
    assert family_of(unknown) == family_of(LLAMA_3_8B)
    assert family_of(replace(unknown, kind="encoder")).loss_fp32 is False
    assert family_of(replace(unknown, gated_mlp=False)).norm == "layer"


def test_families_that_are_near_a_known_one(tmp_path):
    for library in ("torch", "deepspeed", "transformers"):
        pytest.importorskip(library)
    output = tmp_path / "errors.json"
    models = "starcoder2-3b,glm-4-9b,phi-2,gpt-oss-20b"
    command = [sys.executable, str(BENCHMARK), "--models", models, "--cases", "6", "--output", str(output)]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    for row in json.loads(output.read_text())["rows"]:
        predicted, measured = (max(row[side].values()) for side in ("predicted", "measured"))
        assert predicted / measured == pytest.approx(1, abs=0.06), row["case"]


def test_a_sample_of_the_benchmark(tmp_path):
    for library in ("torch", "deepspeed", "transformers"):
        pytest.importorskip(library)
    output = tmp_path / "errors.json"
    command = [sys.executable, str(BENCHMARK), "--cases", "6", "--seed", "3", "--output", str(output)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    result = json.loads(output.read_text())
    assert result["cases"] == 6
    assert result["median_error"] <= 0.03
    assert result["worst_error"] <= 0.10
