"""The two-sided geometric distribution: goodness of fit, moments, arguments.

Fits are judged by `tests.chance`: a right sampler fails with probability 1e-9 at most, and a rate that is 1.5 times too
large or too small, or a zero that comes twice as often, passes with no more (computed there).
"""

import math
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.noise import TwoSidedGeometric
from hdpstats.noise.discrete import geometric
from hdpstats.noise.exact import bits
from tests import chance


def distribution_of(rate: float, *, zero: float = 1.0) -> chance.OutcomeDistribution:
    """Return P[z] ∝ exp(-rate |z|), that of 0 multiplied by ``zero``."""
    reach = math.ceil(60 / rate)
    return chance.OutcomeDistribution(
        {z: math.exp(-rate * abs(z)) * (1.0 if z else zero) for z in range(-reach, reach + 1)}
    )


@pytest.mark.entropy
@pytest.mark.parametrize("rate", [Fraction(1, 5), Fraction(2, 3), Fraction(1), Fraction(7, 3)])
def test_distribution(rate: Fraction) -> None:
    right, *wrong = (distribution_of(float(rate) * factor) for factor in (1.0, 1.5, 1 / 1.5))
    chance.tells(right, TwoSidedGeometric(rate=rate).draws(chance.enough(right, *wrong)), *wrong)


@pytest.mark.entropy
def test_a_second_zero_would_be_noticed() -> None:
    twice, once = distribution_of(1.0, zero=2.0), distribution_of(1.0)
    signed = [geometric(1, 1) * (-1 if bits(1) else 1) for _ in range(chance.enough(twice, once))]
    chance.tells(twice, signed, once)


def test_variance_is_that_of_the_distribution() -> None:
    for rate in (0.05, 1.0, 3.0):
        z = np.arange(-2000, 2001)
        direct = float(np.sum(z**2 * np.tanh(rate / 2) * np.exp(-rate * np.abs(z))))
        assert TwoSidedGeometric(rate=Fraction(rate)).variance == pytest.approx(direct, rel=1e-12)
    assert TwoSidedGeometric(rate=Fraction(2**200)).variance == 0.0


@pytest.mark.entropy
def test_extreme_rates_draw_and_do_not_raise() -> None:
    """|z| is at least t 2^256 with probability exp(-t).

    So all of 20 are below 2^250 with probability 2^-120, and one is above 2^264 with 20 exp(-2^8).
    """
    assert TwoSidedGeometric(rate=Fraction(2**256)).draws(20) == [0] * 20
    magnitudes = [abs(z) for z in TwoSidedGeometric(rate=Fraction(1, 2**256)).draws(20)]
    assert 2**250 < max(magnitudes) < 2**264


@pytest.mark.parametrize("rate", [0.5, "1/2", True, Fraction(0), Fraction(-1), Fraction(1, 2**257), 2**257])
def test_rates_that_are_none_are_refused(rate: object) -> None:
    with pytest.raises(ArgumentError, match=r"^rate must be"):
        TwoSidedGeometric(rate=rate)  # type: ignore[arg-type]


def test_record_is_frozen_and_compares_by_its_rate() -> None:
    noise = TwoSidedGeometric(rate=Fraction(1, 2))
    assert noise == TwoSidedGeometric(rate=Fraction(2, 4))
    with pytest.raises(FrozenInstanceError):
        noise.rate = Fraction(1)  # type: ignore[misc]
