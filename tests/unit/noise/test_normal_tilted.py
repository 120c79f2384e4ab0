"""The tilted normal distribution on integers: goodness of fit, with distributions of which it must be told apart.

Fits are judged by `tests.chance`: a right sampler fails with probability 1e-9 at most; twice the slope and curvature
pass with no more where the distribution is wide.
"""

import math
from fractions import Fraction

import pytest

from hdpstats._base.errors import ArgumentError
from hdpstats.noise.normal import TiltedNormal
from tests import chance

DRAWS = 4000
DISTRIBUTIONS = {
    "two-sided": TiltedNormal(lower=-40, upper=40, slope=Fraction(0), curvature=Fraction(1, 90)),
    "cut on one side": TiltedNormal(lower=-3, upper=60, slope=Fraction(0), curvature=Fraction(1, 200)),
    "one-sided": TiltedNormal(lower=0, upper=50, slope=Fraction(1, 7), curvature=Fraction(1, 400)),
    "downwards": TiltedNormal(lower=-50, upper=0, slope=Fraction(1, 7), curvature=Fraction(1, 400)),
    "steep": TiltedNormal(lower=0, upper=1000, slope=Fraction(3, 2), curvature=Fraction(1, 10**6)),
    "curved": TiltedNormal(lower=-9, upper=9, slope=Fraction(0), curvature=Fraction(7, 5)),
    "almost flat": TiltedNormal(lower=-4, upper=5, slope=Fraction(0), curvature=Fraction(1, 10**9)),
    "two points": TiltedNormal(lower=0, upper=1, slope=Fraction(1, 3), curvature=Fraction(1, 3)),
}


def distribution_of(
    distribution: TiltedNormal, factor: float = 1.0, *, zero: float = 1.0
) -> chance.OutcomeDistribution:
    """Return P[k] ∝ exp(-slope |k| - curvature k²), both multiplied by ``factor`` and P[0] by ``zero``."""
    slope, curvature = factor * float(distribution.slope), factor * float(distribution.curvature)
    points = range(distribution.lower, distribution.upper + 1)
    return chance.OutcomeDistribution(
        {k: math.exp(-slope * abs(k) - curvature * k**2) * (1.0 if k else zero) for k in points}
    )


@pytest.mark.entropy
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_draws_have_the_distribution(name: str) -> None:
    distribution = DISTRIBUTIONS[name]
    right = distribution_of(distribution)
    wrong = [distribution_of(distribution, 2.0)] if distribution.upper - distribution.lower > 20 else []
    number = chance.enough(right, *wrong) if wrong else DRAWS
    chance.tells(right, [distribution.draw() for _ in range(number)], *wrong)


@pytest.mark.entropy
def test_zero_is_as_likely_as_it_should_be() -> None:
    """Both signs lead to it: without a rejection it would have twice its probability."""
    distribution = TiltedNormal(lower=-2, upper=2, slope=Fraction(0), curvature=Fraction(1, 10**6))
    right, wrong = (distribution_of(distribution, zero=height) for height in (1.0, 2.0))
    chance.tells(right, [distribution.draw() for _ in range(chance.enough(right, wrong))], wrong)


@pytest.mark.parametrize(
    "change",
    [{"lower": 1}, {"upper": -1}, {"lower": 0, "upper": 0}, {"slope": Fraction(-1)}, {"curvature": 0}],
    ids=str,
)
def test_what_is_no_distribution_is_refused(change: dict[str, object]) -> None:
    fields = {"lower": -3, "upper": 3, "slope": Fraction(0), "curvature": Fraction(1)} | change
    with pytest.raises(ArgumentError):
        TiltedNormal(**fields)
