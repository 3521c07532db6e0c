"""Bytes of logits and loss, for one logit or one shape by hand; the packages' own code counts the same
(benchmarks/fused_losses.py, results/fused-losses-*.json: 32 cases, worst error 0.2 %).
"""

from __future__ import annotations

from dataclasses import replace

from builders import LLAMA_3_8B, workload

from zeroconf.estimate.loss import logits_bytes

LOGITS = LLAMA_3_8B.vocab_size * 4096
MATRIX = LLAMA_3_8B.vocab_size * 4096
HIDDEN = 4096 * 4096


def both(**changes: object) -> tuple[int, int]:
    facts = workload(**changes)
    forward, backward = (logits_bytes(LLAMA_3_8B, facts, 1, backward=backward) for backward in (False, True))
    return forward, backward


def test_torch_casts_to_fp32_and_keeps_three_copies_in_backward():
    assert both() == (10 * LOGITS, 12 * LOGITS)


def test_one_kernel_reads_the_logits_as_they_are():
    assert both(cross_entropy="fused") == (2 * LOGITS, 4 * LOGITS)
    assert both(cross_entropy="fused", precision="fp32") == (4 * LOGITS, 8 * LOGITS)


def test_liger_keeps_gradients_of_hidden_states_and_matrix_and_one_chunk_of_128_tokens():
    kept = 2 * (HIDDEN + MATRIX)
    chunk = 2 * 128 * LLAMA_3_8B.vocab_size
    assert both(cross_entropy="fused-linear") == (kept + chunk + 6 * MATRIX, kept) == (4_269_080_576, 1_084_227_584)


def test_liger_under_adapters_has_no_gradient_of_the_matrix():
    chunk = 2 * 128 * LLAMA_3_8B.vocab_size
    adapters = both(cross_entropy="fused-linear", trainable_parameters=20_000_000)
    assert adapters == (2 * HIDDEN + chunk + 2 * 128 * 4096, 2 * HIDDEN)


def test_gemma_2_keeps_the_capped_logits():
    gemma = replace(LLAMA_3_8B, architecture="gemma2")
    assert logits_bytes(gemma, workload(cross_entropy="fused"), 1, backward=True) == 6 * LOGITS
