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
from zeroconf.types import LatentAttention

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
    assert blocks.kernel_of(LLAMA_3_8B, workload(attention="sdpa"), 4) == "math"
    assert blocks.kernel_of(replace(LLAMA_3_8B, num_key_value_heads=HEADS), workload(attention="sdpa"), 4) == (
        "efficient"
    )


FALCON = replace(
    LLAMA_3_8B,
    architecture="falcon",
    num_layers=4,
    hidden_size=4544,
    intermediate_size=18176,
    num_attention_heads=71,
    num_key_value_heads=1,
    head_dim=64,
    vocab_size=65024,
    gated_mlp=False,
    tied_embeddings=True,
)


def peaks(model, **changes):
    """Both peaks of 2 x 2048 tokens with full recomputation, over the parameters, in GB."""
    load, ways = workload(sequence_length=2048, **changes), {"checkpointing": True}
    saved = activations.saved_bytes(model, load, 2, **ways)
    forward = activations.forward_working_bytes(model, load, 2, **ways)
    backward = activations.backward_working_bytes(model, load, 2, **ways)
    return (saved + forward) / 1e9, (saved + backward) / 1e9


def test_one_key_head_with_a_mask_computes_scores_in_fp32():
    # _safe_softmax in fp32; queries, keys and values in fp32 for each head, and the output
    assert blocks.kernel_of(FALCON, workload(attention="sdpa"), 2) == "math"
    kept = blocks.attention_bytes(FALCON, workload(attention="sdpa", sequence_length=2048), 2)
    assert kept == 4 * 71 * 2048 + 3 * 4 * 4544 + 2 * 4544
    # counted on fake tensors: 5.18 and 8.15 less 0.59 of the tied matrix's gradient; in fp32 9.01 less 1.18
    assert peaks(FALCON, attention="sdpa") == pytest.approx((5.18, 7.56), rel=0.03)
    assert peaks(FALCON, attention="sdpa", precision="fp32")[1] == pytest.approx(7.83, rel=0.03)


def test_falcon_repeats_grouped_keys_and_makes_numbers_of_its_mask():
    grouped = replace(FALCON, num_attention_heads=64, num_key_value_heads=8, hidden_size=4096)
    assert blocks.kernel_of(grouped, workload(attention="sdpa"), 2) == "efficient"
    kept = blocks.attention_bytes(grouped, workload(attention="sdpa", sequence_length=2048), 2)
    # counted: queries, keys, values, output of 4096 each, the mask's row, a number a head
    assert kept == 2 * 4 * 4096 + 2 * 2048 + 4 * 64


def test_weights_that_a_block_returned_are_held_while_the_next_computes():
    # counted on fake tensors: Falcon 5.04, MPT 3.50 with a tied matrix
    assert peaks(FALCON, attention="eager")[0] == pytest.approx(5.04, rel=0.01)
    mpt = replace(
        FALCON,
        architecture="mpt",
        hidden_size=4096,
        intermediate_size=16384,
        num_attention_heads=32,
        num_key_value_heads=32,
        head_dim=128,
    )
    assert peaks(mpt, attention="eager")[0] == pytest.approx(3.50, rel=0.01)


def test_blooms_activation_is_computed_again_in_backward():
    bloom = replace(
        FALCON,
        architecture="bloom",
        hidden_size=2048,
        intermediate_size=8192,
        num_attention_heads=16,
        num_key_value_heads=16,
        head_dim=128,
    )
    assert blocks.mlp_bytes(bloom, 2) == 2 * 8192 * 2
    # counted on fake tensors: 2.10 and 1.88 less 0.03
    assert peaks(bloom, attention="eager") == pytest.approx((2.10, 1.85), rel=0.06)


def test_dropped_scores_take_the_place_of_their_cast():
    bigcode = replace(FALCON, architecture="gpt_bigcode", num_attention_heads=16, head_dim=128, hidden_size=2048)
    score = 16 * 2048
    kept = blocks.attention_bytes(bigcode, workload(attention="eager", sequence_length=2048), 2)
    # counted: softmax in fp32, its dropped copy in bf16, a mask of one byte
    assert kept == (4 + 2 + 1) * score + 4 * 2048 * 2


def test_adapters_at_stage_3_keep_fp32_copies_of_their_inputs():
    lora = workload(lora_rank=16, trainable_parameters=20_971_520)
    # 7 adapters read 5 widths, the heads and the MLP; two norms need nothing for the gradients of frozen weights
    frozen = -2 * 2 * H * 4096
    assert activations.adapter_bytes(LLAMA_3_8B, lora, 1, stage=2) == frozen
    assert activations.adapter_bytes(LLAMA_3_8B, lora, 1, stage=3) == frozen + 4 * (5 * H + Q + INNER) * 4096
    assert activations.adapter_bytes(LLAMA_3_8B, workload(), 1, stage=3) == 0


# DeepSeek-V2-Lite's widths
LATENT = replace(
    LLAMA_3_8B,
    architecture="deepseek_v2",
    num_layers=27,
    hidden_size=2048,
    intermediate_size=1408,
    num_attention_heads=16,
    num_key_value_heads=16,
    head_dim=192,
    num_experts=64,
    num_experts_per_token=6,
    shared_intermediate_size=2816,
    num_dense_layers=1,
    dense_intermediate_size=10944,
    latent=LatentAttention(query_rank=0, key_value_rank=512, rotary_size=64, value_size=128),
)


def test_shared_experts_keep_what_an_mlp_of_their_width_keeps_and_what_their_gate_weighs():
    mixture = replace(LATENT, architecture="qwen2_moe", latent=None)
    alone = replace(mixture, shared_intermediate_size=0)
    kept = blocks.mlp_bytes(mixture, 2) - blocks.mlp_bytes(alone, 2)
    assert kept == 4 * 2816 * 2
    # the gate's product reads the output, whatever its width
    ungated = replace(alone, architecture="qwen3_moe")
    assert blocks.mlp_bytes(alone, 2) - blocks.mlp_bytes(ungated, 2) == 2048 * 2


def test_a_block_without_experts_keeps_its_own_width():
    tokens = 4096
    mixture = replace(LATENT, num_dense_layers=0, dense_intermediate_size=0)
    saved = activations.saved_bytes(mixture, workload(), 1, checkpointing=False)
    with_dense = activations.saved_bytes(LATENT, workload(), 1, checkpointing=False)
    assert saved - with_dense == (blocks.mlp_bytes(LATENT, 2) - 4 * 10944 * 2) * tokens
    # the widest block is what recomputation needs
    wide = replace(LATENT, dense_intermediate_size=100_000)
    assert blocks.mlp_bytes(wide, 2) == 4 * 100_000 * 2
    assert activations.layer_bytes(wide, workload(), 1) > activations.layer_bytes(LATENT, workload(), 1)


def test_all_experts_of_llama_4_keep_every_token():
    scout = replace(
        LLAMA_3_8B,
        architecture="llama4_text",
        hidden_size=5120,
        intermediate_size=8192,
        num_experts=16,
        num_experts_per_token=1,
        shared_intermediate_size=8192,
    )
    routed = replace(scout, architecture="mixtral")
    idle = blocks.mlp_bytes(scout, 2) - blocks.mlp_bytes(routed, 2)
    # the repeated input, its product with the scores, gate, activation, up, their product; indices
    assert idle == 15 * ((2 * 5120 + 4 * 8192) * 2 + 40)


def test_latent_attention_keeps_what_it_is_expanded_to():
    heads, width, value, rotary = 16, 192, 128, 64
    compressed = (4 + 2 + 2) * 512 + 4
    queries_keys, expanded, output = 2 * heads * width, heads * (width - rotary + value), heads * value
    sdpa = blocks.attention_bytes(LATENT, workload(attention="sdpa"), 2)
    assert blocks.kernel_of(LATENT, workload(attention="sdpa"), 2) == "efficient"
    assert sdpa == compressed + 2 * (queries_keys + expanded + output) + 4 * heads
    # flash pads the values to the queries' width, computes as wide an output, and cuts it
    flash = blocks.attention_bytes(LATENT, workload(attention="flash"), 2)
    assert flash == compressed + 2 * (queries_keys + 2 * heads * width + output) + 4 * heads


def test_mixtures_against_their_classes(tmp_path):
    for library in ("torch", "deepspeed", "transformers"):
        pytest.importorskip(library)
    output = tmp_path / "errors.json"
    models = "qwen1.5-moe-a2.7b,deepseek-v2-lite,llama-4-scout-17b-16e"
    command = [sys.executable, str(BENCHMARK), "--models", models, "--cases", "9", "--output", str(output)]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    for row in json.loads(output.read_text())["rows"]:
        # the larger of both peaks is what a plan needs
        measured, predicted = max(row["measured"].values()), max(row["predicted"].values())
        assert -0.05 < predicted / measured - 1 < 0.08, row["case"]


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
