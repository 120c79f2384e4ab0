"""From the lattice to doubles, and directed bounds of rationals."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpstats._base.errors import ArgumentError
from hdpstats.noise import exact

positive = st.fractions(min_value=Fraction(1, 10**30), max_value=Fraction(10**30))


@given(st.lists(st.integers(-(2**53), 2**53), max_size=5), st.integers(-60, 60))
def test_lift_is_exact_on_grids_that_are_powers_of_two(points: list[int], exponent: int) -> None:
    grid = Fraction(2) ** exponent
    lifted = exact.lift(points, grid)
    assert lifted.dtype == np.float64
    assert lifted.shape == (len(points),)
    assert [Fraction(value) for value in lifted.tolist()] == [point * grid for point in points]


def test_lift_is_total() -> None:
    largest = sys.float_info.max
    assert exact.lift([10**400, -(10**400)], Fraction(1)).tolist() == [largest, -largest]
    assert exact.lift([1], Fraction(1, 2**1200)).tolist() == [0.0]
    assert exact.lift([1], Fraction(1, 3)).tolist() == [1 / 3]


@given(positive)
def test_power_of_two_below(x: Fraction) -> None:
    power = exact.power_of_two_below(x)
    assert power <= x < 2 * power
    assert power.numerator == 1 or power.denominator == 1
    assert (power.numerator * power.denominator).bit_count() == 1


@given(positive, st.integers(1, 90))
def test_rounding_is_directed_and_close(x: Fraction, bits: int) -> None:
    low = exact.round_down(x, bits)
    assert 0 < low <= x
    assert x - low <= x / 2 ** (bits - 1)
    assert low.denominator.bit_count() == 1
    assert exact.round_down(low, bits + 1) == low


def test_rounding_keeps_signs() -> None:
    assert exact.round_down(Fraction(0), 5) == 0
    assert exact.round_down(Fraction(-1, 3), 10) < Fraction(-1, 3)


@given(positive)
def test_square_roots_are_enclosed_with_sixty_bits(x: Fraction) -> None:
    low, high = exact.sqrt_down(x), exact.sqrt_up(x)
    assert low**2 <= x <= high**2
    assert high - low <= low / 2**60


def test_square_roots_of_squares_are_exact() -> None:
    for x in (Fraction(0), Fraction(4), Fraction(9, 16), Fraction(10**60)):
        assert exact.sqrt_down(x) == exact.sqrt_up(x)
        assert exact.sqrt_up(x) ** 2 == x


def test_exact_reads_the_double_itself() -> None:
    assert exact.exact(0.1) == Fraction(3602879701896397, 2**55)
    assert exact.exact(np.float64(0.5)) == Fraction(1, 2)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_exact_refuses_what_is_no_number(value: float) -> None:
    with pytest.raises(ArgumentError, match="finite"):
        exact.exact(value)


def test_domains_of_roots_and_powers() -> None:
    with pytest.raises(ArgumentError, match="square root"):
        exact.sqrt_up(Fraction(-1))
    with pytest.raises(ArgumentError, match="power of two"):
        exact.power_of_two_below(Fraction(0))


def test_positive_rational_refuses_floats_and_extremes() -> None:
    assert exact.positive_rational(3, name="radius") == Fraction(3)
    for value in (0.5, "1", None, True, Fraction(0), Fraction(1, 2**300)):
        with pytest.raises(ArgumentError, match=r"^radius must be"):
            exact.positive_rational(value, name="radius")
