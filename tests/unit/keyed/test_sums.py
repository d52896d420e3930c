"""Sums of doubles: the same in any order, and right where adding one after the other is not."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.keyed.arrow.sums import add_doubles, double_sums

SIZED = st.floats(-1e12, 1e12)
EVEN = st.builds(math.ldexp, st.integers(-(2**53), 2**53), st.integers(-40, 0))
"""Numbers whose sums have less than a hundred bits."""


@given(st.lists(EVEN, max_size=50))
def test_sums_are_exact_but_for_the_last_rounding(values: list[float]) -> None:
    owners = np.arange(len(values)) % 3
    high, _ = double_sums(np.array(values), owners, 3)
    assert high.tolist() == [math.fsum(values[owner::3]) for owner in range(3)]


@given(st.lists(SIZED, max_size=50))
def test_sums_of_any_doubles_are_within_the_last_bit(values: list[float]) -> None:
    high, _ = double_sums(np.array(values), np.zeros(len(values), np.int64), 1)
    assert high[0] == pytest.approx(math.fsum(values), rel=2**-52, abs=1e-18)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50), st.randoms())
def test_the_order_of_rows_does_not_matter(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    owners = np.zeros(len(values), np.int64)
    one, two = (double_sums(np.array(some), owners, 1) for some in (values, shuffled))
    assert (one[0].tolist(), one[1].tolist()) == (two[0].tolist(), two[1].tolist())


@given(st.lists(SIZED, max_size=30), st.lists(SIZED, max_size=30))
def test_what_was_added_can_be_taken_off(stay: list[float], go: list[float]) -> None:
    total = np.zeros(1), np.zeros(1)
    for values, sign in ((stay, 1.0), (go, 1.0), (go, -1.0)):
        total = add_doubles(*total, *double_sums(np.array(values) * sign, np.zeros(len(values), np.int64), 1))
    assert total[0][0] == pytest.approx(math.fsum(stay), rel=1e-14, abs=1e-18)


def test_a_sum_that_is_too_large_is_infinite() -> None:
    high, low = double_sums(np.array([1.7e308, 1.7e308, 1.0]), np.array([0, 0, 1]), 2)
    assert add_doubles(high, low, np.zeros(2), np.zeros(2))[0].tolist() == [math.inf, 1.0]
