from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zeroconf.units import divisors, next_power_of_two, round_up


@given(st.integers(-5, 2**70))
def test_next_power_of_two_is_the_smallest_at_or_above(value):
    power = next_power_of_two(value)
    assert power & (power - 1) == 0
    assert power >= max(1, value)
    assert power == 1 or power // 2 < value


@given(st.integers(0, 10**12), st.integers(1, 10**6))
def test_round_up_is_the_next_multiple(value, multiple):
    rounded = round_up(value, multiple)
    assert rounded % multiple == 0
    assert 0 <= rounded - value < multiple


def test_divisors_of_any_number_come_at_once():
    assert divisors(12) == [1, 2, 3, 4, 6, 12]
    assert divisors(2**80)[:3] == [1, 2, 4]
    assert divisors(2**80)[-1] == 2**80
