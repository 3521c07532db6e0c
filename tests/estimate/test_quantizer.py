"""What DeepSpeed's quantizer makes of sizes, beside its own loop; test_dry_run.py runs the real one."""

from __future__ import annotations

import math

import pytest
from builders import LLAMA_3_8B
from hypothesis import given
from hypothesis import strategies as st

from zeroconf.estimate.quantizer import quantization_groups, refused
from zeroconf.inputs.model import read_model


def deepspeeds_groups(elements):
    """zero/partition_parameters.py, CUDAQuantizer.quantize, word for word; None where one of its asserts fails."""
    groups = math.ceil(elements / 8000)
    while groups < elements:
        if elements % (8 * groups) == 0:
            break
        groups += 1
    while True:
        if elements % (8 * groups * 2) == 0 and elements / groups > 8000:
            groups *= 2
        else:
            break
    accepted = elements % (8 * groups) == 0 and elements / groups < 16000 and elements > groups
    return groups if accepted else None


@given(elements=st.integers(1, 200_000) | st.integers(1, 40_000).map(lambda eights: 8 * eights))
def test_groups_are_those_of_deepspeeds_loop(elements):
    theirs = deepspeeds_groups(elements)
    assert (theirs is None) == (elements % 8 != 0)
    if theirs is not None:
        assert quantization_groups(elements) == theirs


@pytest.mark.parametrize(
    ("elements", "groups"),
    # eights of 1000; eights of a prime, one to a group; a prime, as of shapes that are not known
    [(65_536, 16), (8, 1), (8_000, 1), (8 * 8_009, 8_009), (683 * 10**9, 85_375_000), (3_000_000_019, 375_001)],
)
def test_groups_of_any_size_are_there_at_once(elements, groups):
    assert quantization_groups(elements) == groups


@pytest.mark.parametrize(
    ("num_ranks", "elements", "part"),
    # the vocabulary matrix, whose part is rounded up; the first norm; 8 elements of a norm on each are enough
    [(5, 128_256 * 4096, 105_067_316), (24, 4096, 171), (1024, 4096, 4), (512, 0, 0), (32, 0, 0)],
)
def test_the_first_module_that_is_refused(num_ranks, elements, part):
    found = refused(LLAMA_3_8B, num_ranks)
    assert (found.elements, found.part) == (elements, part) if part else found is None


def test_what_is_not_known_is_not_refused():
    assert refused(read_model("deepseek-v3"), 24) is None
    assert refused(LLAMA_3_8B, 1) is None
