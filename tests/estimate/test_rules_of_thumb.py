"""The textbook figures of the ZeRO paper, table 1 and section 7."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroconf.estimate.rules_of_thumb import gpus_needed, model_state_bytes, suggest_stage, traffic_elements


@pytest.mark.parametrize(("stage", "billions"), [(0, 112), (1, 38.5), (2, 26.25), (3, 14)])
def test_7b_on_8_gpus(stage, billions):
    assert model_state_bytes(7e9, 8, stage) == billions * 1e9


@pytest.mark.parametrize(("stage", "multiple"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_traffic(stage, multiple):
    assert traffic_elements(7e9, stage) == multiple * 7e9


@pytest.mark.parametrize(("stage", "elements"), [(0, 8e7), (1, 8e7), (2, 8e7), (3, 1.404e10)])
def test_frozen_weights_are_gathered_and_have_no_gradients(stage, elements):
    assert traffic_elements(7e9, stage, 4e7) == elements
    assert traffic_elements(7e9, stage, 7e9) == traffic_elements(7e9, stage)


def test_sgd_has_8_bytes_in_all():
    assert model_state_bytes(1, 1, 0, "sgd") == 8


@pytest.mark.parametrize("arguments", [(1, 1, 4), (1, 0, 1), (1, 1, 1, "adafactor-9")])
def test_nonsense_is_refused(arguments):
    with pytest.raises(ValueError, match="stage"):
        model_state_bytes(*arguments)


def test_gpus_needed_worked_numbers():
    assert [gpus_needed(7e9, 80e9, stage) for stage in range(4)] == [None, 3, 2, 2]


@given(st.floats(1e6, 1e12), st.floats(1e9, 1e12), st.integers(0, 3), st.sampled_from(["adamw", "lion", "sgd"]))
def test_gpus_needed_is_the_smallest_that_fits(parameters, memory, stage, optimizer):
    number = gpus_needed(parameters, memory, stage, optimizer)
    budget = 0.8 * memory
    if number is None:
        assert model_state_bytes(parameters, 10**9, stage, optimizer) > budget * (1 - 1e-6)
    else:
        assert model_state_bytes(parameters, number, stage, optimizer) <= budget * (1 + 1e-9)
        if number > 1 and stage > 0:
            assert model_state_bytes(parameters, number - 1, stage, optimizer) > budget * (1 - 1e-9)


def test_suggest_the_lowest_stage_that_fits():
    assert suggest_stage(7e9, 8, 80e9) == 1
    assert suggest_stage(1e9, 8, 80e9) == 0
    assert suggest_stage(13e9, 4, 80e9) == 3
    assert suggest_stage(1e12, 8, 80e9) is None
