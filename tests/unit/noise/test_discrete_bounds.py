"""Integer enclosures of square roots and of exp(-x), against mpmath."""

import random
from fractions import Fraction

import mpmath
import pytest

from hdpstats.noise.discrete import exp_bounds, root_bounds, root_sum_bounds


@pytest.mark.parametrize("precision", [64, 192, 448])
def test_exp_bounds_enclose_mpmath_tightly(precision: int) -> None:
    generator = random.Random(precision)
    with mpmath.workprec(precision + 200):
        for _ in range(700):
            x = generator.getrandbits(precision + generator.randint(-40, 10))
            low, high = exp_bounds(x, x, precision=precision)
            truth = mpmath.exp(-mpmath.mpf(x) / 2**precision) * 2**precision
            assert low <= truth <= high
            assert high - low <= 4


def test_exp_bounds_of_an_interval_are_those_of_its_ends() -> None:
    x, y = 3 << 62, 5 << 62
    assert exp_bounds(x, y, precision=64) == (
        exp_bounds(y, y, precision=64)[0],
        exp_bounds(x, x, precision=64)[1],
    )


def test_exp_bounds_at_the_ends_of_the_range() -> None:
    low, high = exp_bounds(0, 0, precision=64)
    assert 2**64 - 4 <= low <= 2**64 == high
    low, high = exp_bounds(10**6 << 64, 10**6 << 64, precision=64)
    assert low == 0
    assert 0 < high <= 4


def test_root_bounds_are_neighbours_and_equal_for_squares() -> None:
    for number in [*range(50), 10**40 + 1, 2**301]:
        low, high = root_bounds(number, 70)
        assert low * low <= number << 140 <= high * high
        assert high - low <= 1
    assert root_bounds(49, 5) == (7 * 32, 7 * 32)


def test_root_sums_are_enclosed_tightly_for_rates_of_any_size() -> None:
    generator = random.Random(1)
    with mpmath.workprec(2000):
        for _ in range(500):
            terms = [
                (
                    Fraction(generator.randint(-(10**9), 10**9), 2 ** generator.randint(0, 60))
                    * Fraction(2) ** generator.randint(-200, 200),
                    generator.getrandbits(generator.randint(1, 400)),
                )
                for _ in range(3)
            ]
            low, high = root_sum_bounds(terms, 128)
            truth = sum(mpmath.mpf(c.numerator) / c.denominator * mpmath.sqrt(n) for c, n in terms)
            assert low <= truth * mpmath.mpf(2) ** 128 <= high
            assert high - low <= 6
