"""The distribution of the smoothing noise: as it is drawn, and as far as a release tells it."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hdpstats.mechanisms.perturbation import ObjectiveRelease
from hdpstats.mechanisms.perturbation.site import smoothing_distribution, smoothing_noise, widest_smoothing
from hdpstats.privacy.budget import MechanismName, PrivacyEvent

EPSILON = Fraction(1, 1000)
TOTALS = [Fraction(4), Fraction(5), Fraction(8) - Fraction(1, 10**9), Fraction(3, 10**7), Fraction(1, 10**12)]


def release_of(*, dimension, grid, events):
    return ObjectiveRelease(
        theta=(0.0,) * dimension,
        hessian=None,
        noise_rate=1.0,
        hessian_noise_sd=0.0,
        grid=float(grid),
        records=100,
        events=events,
    )


def smoothed(epsilon=EPSILON):
    return (
        PrivacyEvent(ran=MechanismName.OBJECTIVE, epsilon=Fraction(1)),
        PrivacyEvent(ran=MechanismName.SMOOTHING, epsilon=epsilon),
    )


@pytest.mark.parametrize("dimension", [1, 3, 30])
@pytest.mark.parametrize("total", TOTALS, ids=float)
def test_a_release_never_understates_the_noise_and_overstates_it_by_a_known_factor(total, dimension):
    noise, grid = smoothing_noise(total=total, dimension=dimension, epsilon=EPSILON)
    assert 32 <= total / grid < 64
    exact = smoothing_distribution(noise, grid).variance
    length = 2.0 * float(total + grid * Fraction(math.sqrt(dimension))) / float(EPSILON)
    assert exact == pytest.approx(np.full(dimension, (dimension + 1) * length**2))
    told = widest_smoothing(release_of(dimension=dimension, grid=grid, events=smoothed())).variance
    root = math.sqrt(dimension)
    assert np.all(told >= exact)
    assert np.all(told <= exact * ((64.0 + root) / (32.0 + root)) ** 2 * (1.0 + 1e-9))


def test_where_nothing_was_smoothed_there_is_no_such_noise():
    events = (PrivacyEvent(ran=MechanismName.OUTPUT, epsilon=Fraction(1)),)
    assert widest_smoothing(release_of(dimension=2, grid=2.0**-20, events=events)) is None
