"""How buckets fill: small gradients, worked by hand."""

from __future__ import annotations

import pytest
from builders import ORACLE_LLAMA

from zeroconf.estimate.reductions import (
    Gradients,
    Sent,
    gradients,
    partition_buckets,
    reduced_buckets,
    scattered_buckets,
    whole_buckets,
)
from zeroconf.estimate.trace import trace
from zeroconf.estimate.tree import Shape

FOUR = Gradients((4, 4, 4, 4), (0, 4, 8, 12))


def test_stage_0_sends_a_bucket_that_has_passed_its_limit():
    assert whole_buckets(FOUR, 6) == Sent(16, 2)
    assert whole_buckets(FOUR, 100) == Sent(16, 1)


@pytest.mark.parametrize(
    ("limit", "to_owners", "calls"),
    [
        (8, False, 2),
        (9, False, 2),
        # each tensor is beyond the limit: its two owners' halves pass it one by one
        (1, False, 8),
        (3, False, 4),
        # shares of 2: every tensor has two owners
        (8, True, 8),
        (3, True, 8),
    ],
)
def test_stages_1_and_2(limit, to_owners, calls):
    assert partition_buckets(FOUR, limit, 2, to_owners=to_owners, splits=True) == Sent(16, calls)


def test_a_gradient_without_slices_is_one_call_whatever_its_size():
    assert partition_buckets(FOUR, 1, 2, to_owners=False, splits=False) == Sent(16, 4)


def test_stage_3_pads_and_scatters():
    mixed = Gradients((3, 4, 4, 4), (0, 3, 7, 11))
    assert scattered_buckets(mixed, 10, 4) == Sent(16, 2)
    assert scattered_buckets(mixed, 1, 4) == Sent(16, 4)
    assert reduced_buckets(Gradients((3, 12, 4), (0, 3, 15)), 10, 8) == (Sent(7, 2), Sent(16, 1))


def test_blocks_beyond_the_traced_ones_are_like_the_second():
    """The same gradients, in the same order and places, as of the whole trace."""
    shallow, whole = trace(Shape(ORACLE_LLAMA, 3)), trace(Shape(ORACLE_LLAMA, 8))
    for ready in (True, False):
        one = gradients(shallow, 7_475_456, 5, ready=ready)
        other = gradients(whole, 7_475_456, 0, ready=ready)
        assert (one.sizes, one.starts) == (other.sizes, other.starts)


def test_a_part_that_trains_is_the_last():
    found = gradients(trace(Shape(ORACLE_LLAMA, 8)), 600_000, 0, ready=True)
    assert found.sizes == (524_288, 256, 75_456)
