"""The tilted normal law on integers: goodness of fit, with laws of which it must be told apart."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from hdpstats._base.errors import ArgumentError
from hdpstats.noise.tilted import TiltedNormal

ALPHA = 1e-7
DRAWS = 4000
LAWS = {
    "two-sided": TiltedNormal(lower=-40, upper=40, slope=Fraction(0), curvature=Fraction(1, 90)),
    "cut on one side": TiltedNormal(lower=-3, upper=60, slope=Fraction(0), curvature=Fraction(1, 200)),
    "one-sided": TiltedNormal(lower=0, upper=50, slope=Fraction(1, 7), curvature=Fraction(1, 400)),
    "downwards": TiltedNormal(lower=-50, upper=0, slope=Fraction(1, 7), curvature=Fraction(1, 400)),
    "steep": TiltedNormal(lower=0, upper=1000, slope=Fraction(3, 2), curvature=Fraction(1, 10**6)),
    "curved": TiltedNormal(lower=-9, upper=9, slope=Fraction(0), curvature=Fraction(7, 5)),
    "almost flat": TiltedNormal(lower=-4, upper=5, slope=Fraction(0), curvature=Fraction(1, 10**9)),
    "two points": TiltedNormal(lower=0, upper=1, slope=Fraction(1, 3), curvature=Fraction(1, 3)),
}


def probabilities(law: TiltedNormal) -> np.ndarray:
    k = np.arange(law.lower, law.upper + 1)
    heights = np.exp(-float(law.slope) * np.abs(k) - float(law.curvature) * k**2)
    return heights / heights.sum()


def p_value(drawn: np.ndarray, law: TiltedNormal) -> float:
    """Return the p-value of a chi-square test; rare values are taken together."""
    expected = probabilities(law) * len(drawn)
    seen = np.bincount(drawn - law.lower, minlength=len(expected)).astype(float)
    rare = expected < 8.0
    cells = [np.append(each[~rare], each[rare].sum()) for each in (seen, expected)]
    if cells[1][-1] < 1e-3:
        assert cells[0][-1] <= 1
        cells = [each[:-1] for each in cells]
        cells[1] *= cells[0].sum() / cells[1].sum()
    return float(chisquare(*cells).pvalue)


@pytest.mark.parametrize("name", LAWS)
def test_draws_have_the_law(name: str) -> None:
    law = LAWS[name]
    drawn = np.array([law.draw() for _ in range(DRAWS)])
    assert p_value(drawn, law) > ALPHA
    if law.upper - law.lower > 20:
        wrong = TiltedNormal(lower=law.lower, upper=law.upper, slope=law.slope * 2, curvature=law.curvature * 2)
        assert p_value(drawn, wrong) < ALPHA


def test_zero_is_as_likely_as_it_should_be() -> None:
    # Both signs lead to it: without a rejection it would have twice its probability.
    law = TiltedNormal(lower=-2, upper=2, slope=Fraction(0), curvature=Fraction(1, 10**6))
    zeros = sum(law.draw() == 0 for _ in range(DRAWS)) / DRAWS
    assert abs(zeros - 0.2) < 6.0 * (0.16 / DRAWS) ** 0.5


@pytest.mark.parametrize(
    "change",
    [{"lower": 1}, {"upper": -1}, {"lower": 0, "upper": 0}, {"slope": Fraction(-1)}, {"curvature": 0}],
    ids=str,
)
def test_what_is_no_law_is_refused(change: dict[str, object]) -> None:
    fields = {"lower": -3, "upper": 3, "slope": Fraction(0), "curvature": Fraction(1)} | change
    with pytest.raises(ArgumentError):
        TiltedNormal(**fields)
