"""The record of box noise: its arguments and its extremes. Its distribution is tested in tests/privacy."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.noise import BoxNoise
from hdpstats.noise.discrete import geometric
from hdpstats.noise.distributions import box_variance
from tests import chance


@pytest.mark.parametrize("dimension", [1, 2, 33, 150])
@pytest.mark.parametrize("rate", [Fraction(1, 2**256), Fraction(1, 10**12), Fraction(1), Fraction(8)])
def test_draws_are_integers_at_any_rate_per_dimension(dimension: int, rate: Fraction) -> None:
    z = BoxNoise(dimension=dimension, rate=rate / dimension if rate >= 1 else rate).draw()
    assert len(z) == dimension
    assert all(type(coordinate) is int for coordinate in z)


@pytest.mark.entropy
def test_the_size_on_a_fine_lattice_is_that_of_the_density() -> None:
    """rate max |z| is Gamma(4, 1): exact tails of the sum of 3000; a scale 1.15 times too small is missed with 1e-9.

    The variance of a coordinate follows: it is the largest one with probability 1/4, else uniform below it.
    """
    noise = BoxNoise(dimension=4, rate=Fraction(1, 10**6))
    sizes = 1e-6 * np.abs([noise.draw() for _ in range(3000)]).max(axis=1)
    assert chance.gamma_sum_fits(sizes.sum(), 3000 * 4)
    assert chance.miss_of_gamma_sum(3000 * 4, 1.15) <= chance.ALARM
    assert not chance.gamma_sum_fits(1.15 * sizes.sum(), 3000 * 4)
    assert box_variance(4, 1.0) == pytest.approx(4 * 5 * (1 / 4 + 3 / 4 / 3))


@pytest.mark.entropy
def test_a_geometric_number_has_its_distribution_and_never_a_sign() -> None:
    distribution, wrong = (
        chance.OutcomeDistribution({y: math.exp(-rate * y) for y in range(200)}) for rate in (1 / 3, 1.25 / 3)
    )
    chance.tells(distribution, [geometric(1, 3) for _ in range(20000)], wrong)


@pytest.mark.parametrize("dimension", [0, -1, 2.5, None, 100_001])
def test_dimensions_that_are_none_are_refused(dimension: object) -> None:
    with pytest.raises(ArgumentError, match="dimension"):
        BoxNoise(dimension=dimension, rate=Fraction(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", [0.5, 0, Fraction(-1), Fraction(1, 2**257), Fraction(9, 2)])
def test_rates_that_are_none_are_refused(rate: object) -> None:
    with pytest.raises(ArgumentError, match="rate"):
        BoxNoise(dimension=2, rate=rate)  # type: ignore[arg-type]
