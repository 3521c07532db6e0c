"""What stage 3 gathers, against the calls that DeepSpeed 0.19.8 made (its own log, 8 ranks)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import LLAMA_3_8B, ORACLE_LLAMA

from zeroconf.estimate.gathers import Limits, Widths, gathered, gathers
from zeroconf.estimate.reductions import Sent
from zeroconf.estimate.trace import trace
from zeroconf.estimate.tree import Shape

LEAN = Limits(1_000_000, 0, 500_000, 10_000)
TIED = replace(ORACLE_LLAMA, num_parameters=6_951_168, tied_embeddings=True)
HALF = Widths(2, 2, 2)


def counted(model=ORACLE_LLAMA, limits=LEAN, *, accumulates=False, **options):
    found = trace(Shape(model, model.num_layers, **options))
    return gathered(found, limits, HALF, HALF, 8, 1, accumulates=accumulates).every.get(2, Sent(0, 0))


@pytest.mark.parametrize(
    ("options", "limits", "logged"),
    [
        ({}, LEAN, Sent(14_057_472, 73)),
        ({}, LEAN._replace(max_live_parameters=10**9), Sent(8_257_536, 13)),
        ({"recomputes": True}, LEAN, Sent(14_237_696, 74)),
        ({"lora_rank": 8}, LEAN, Sent(13_336_576, 71)),
        # what recomputation gathered of frozen weights is let go at once, and gathered again for backward
        ({"lora_rank": 8, "recomputes": True}, LEAN, Sent(20_840_448, 111)),
    ],
)
def test_one_micro_step(options, limits, logged):
    assert counted(limits=limits, **options) == logged


def test_tied_embeddings_are_gathered_for_input_and_output():
    assert counted(TIED) == counted()


def test_persistent_parameters_are_gathered_by_the_optimizer_step_alone():
    all_of_it = LEAN._replace(param_persistence_threshold=10**6)
    assert counted(limits=all_of_it, accumulates=True) == Sent(0, 0)
    found = gathered(trace(Shape(ORACLE_LLAMA, 8)), all_of_it, HALF, HALF, 8, 1, accumulates=True)
    assert found.step[2] == Sent(7_475_456, 75)


def test_the_first_decisions_are_for_good():
    assert counted(accumulates=True) == Sent(14_057_472, 73)


def test_hpz_gathers_over_all_ranks_what_trains_once():
    found = gathered(trace(Shape(ORACLE_LLAMA, 8)), LEAN, HALF, HALF, 8, 2, accumulates=True)
    persistent = 17 * 256
    assert found.first[2].elements == ORACLE_LLAMA.num_parameters - persistent
    assert found.first[2].elements + found.again[2].elements == found.later[2].elements == found.every[2].elements
    frozen = gathered(trace(Shape(ORACLE_LLAMA, 8, lora_rank=8)), LEAN, HALF, HALF, 8, 2, accumulates=True)
    # adapters are persistent here, and frozen weights keep their secondary shards
    assert not frozen.first


def test_more_room_never_gathers_more():
    wide = [counted(limits=LEAN._replace(max_live_parameters=live)).elements for live in (10**5, 10**6, 10**7)]
    assert wide == sorted(wide, reverse=True)
    # forward, recomputation and backward lie between two uses
    far = [
        counted(limits=LEAN._replace(max_live_parameters=8 * 10**6, max_reuse_distance=far), recomputes=True).elements
        for far in (0, 2 * 7_475_456, 3 * 7_475_456)
    ]
    assert far[0] >= far[1] > far[2] == 7_475_456 - 17 * 256


def test_calls_hold_what_is_computed_or_computed_next():
    calls = gathers(trace(Shape(LLAMA_3_8B, 2)), Limits(1, 0, 0, 0), accumulates=False)
    # no prefetching: each module by itself, forward and backward
    assert all(len(call) == 1 for call in calls)
    assert len(calls) == 2 * (3 + 2 * 9)
