"""The two-sided geometric law: goodness of fit, moments, arguments."""

import math
from collections import Counter
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from hdpstats._base.errors import ArgumentError
from hdpstats.noise import TwoSidedGeometric

ALPHA = 1e-9
DRAWS = 15000


def fits(draws: list[int], rate: float) -> bool:
    """Chi-square test of P[z] = tanh(rate/2) exp(-rate |z|), tails pooled."""
    reach = int(math.log(len(draws) * math.tanh(rate / 2) / 30) / rate)
    probabilities = np.tanh(rate / 2) * np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))
    counts = Counter(draws)
    observed = [counts[z] for z in range(-reach, reach + 1)]
    observed.append(len(draws) - sum(observed))
    expected = len(draws) * np.append(probabilities, 1 - probabilities.sum())
    return bool(chisquare(observed, expected).pvalue > ALPHA)


@pytest.mark.parametrize("rate", [Fraction(1, 5), Fraction(2, 3), Fraction(1), Fraction(7, 3)])
def test_law(rate: Fraction) -> None:
    draws = TwoSidedGeometric(rate=rate).draws(DRAWS)
    assert fits(draws, float(rate))
    assert not fits(draws, float(rate) * 1.5)
    assert not fits(draws, float(rate) / 1.5)


def test_a_second_zero_would_be_noticed() -> None:
    draws = TwoSidedGeometric(rate=Fraction(1)).draws(DRAWS)
    one_sided = [-abs(z) if i % 2 else abs(z) for i, z in enumerate(draws)]
    assert fits(one_sided, 1.0)
    zeros_doubled = draws + [0] * draws.count(0)
    assert not fits(zeros_doubled, 1.0)


def test_variance_is_that_of_the_law() -> None:
    for rate in (0.05, 1.0, 3.0):
        z = np.arange(-2000, 2001)
        direct = float(np.sum(z**2 * np.tanh(rate / 2) * np.exp(-rate * np.abs(z))))
        assert TwoSidedGeometric(rate=Fraction(rate)).variance == pytest.approx(direct, rel=1e-12)
    assert TwoSidedGeometric(rate=Fraction(2**200)).variance == 0.0


def test_extreme_rates_draw_and_do_not_raise() -> None:
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
