"""The record of box noise: its arguments and its extremes. Its law is tested in tests/privacy."""

from fractions import Fraction

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.noise import BoxNoise
from hdpstats.noise.geometric import geometric
from hdpstats.noise.moments import box_variance


@pytest.mark.parametrize("dimension", [1, 2, 33, 150])
@pytest.mark.parametrize("rate", [Fraction(1, 2**256), Fraction(1, 10**12), Fraction(1), Fraction(8)])
def test_draws_are_integers_at_any_rate_per_dimension(dimension: int, rate: Fraction) -> None:
    z = BoxNoise(dimension=dimension, rate=rate / dimension if rate >= 1 else rate).draw()
    assert len(z) == dimension
    assert all(type(coordinate) is int for coordinate in z)


def test_the_variance_on_a_fine_lattice_is_that_of_the_density() -> None:
    noise = BoxNoise(dimension=4, rate=Fraction(1, 10**6))
    draws = np.array([noise.draw() for _ in range(3000)], dtype=float)
    assert draws.var() == pytest.approx(box_variance(4, 1e-6), rel=0.12)


def test_a_geometric_number_has_its_mean_and_never_a_sign() -> None:
    numbers = [geometric(1, 3) for _ in range(20000)]
    assert min(numbers) == 0
    assert np.mean(numbers) == pytest.approx(1.0 / np.expm1(1.0 / 3.0), rel=0.05)


@pytest.mark.parametrize("dimension", [0, -1, 2.5, None, 100_001])
def test_dimensions_that_are_none_are_refused(dimension: object) -> None:
    with pytest.raises(ArgumentError, match="dimension"):
        BoxNoise(dimension=dimension, rate=Fraction(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", [0.5, 0, Fraction(-1), Fraction(1, 2**257), Fraction(9, 2)])
def test_rates_that_are_none_are_refused(rate: object) -> None:
    with pytest.raises(ArgumentError, match="rate"):
        BoxNoise(dimension=2, rate=rate)  # type: ignore[arg-type]
