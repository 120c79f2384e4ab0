"""The terms of an interval, against many digits, from one end of floating point to the other."""

import mpmath
import numpy as np
import pytest

from hdpstats.losses import LINKS
from hdpstats.losses.hazard_links import LARGEST_EXPONENT

PREDICTORS = [
    -900.0,
    -45.0,
    -37.5,
    -36.9,
    -12.0,
    -5.0,
    -2.302,
    -2.303,
    -0.7,
    0.0,
    0.3,
    1.9,
    4.0,
    30.0,
    199.0,
    201.0,
    580.0,
]


LOG_SURVIVAL = {
    "logit": lambda eta: -mpmath.log1p(mpmath.exp(eta)),
    "cloglog": lambda eta: -mpmath.exp(eta),
    "probit": lambda eta: mpmath.log(mpmath.erfc(eta / mpmath.sqrt(2)) / 2),
}
LOG_EVENT = {
    "logit": lambda eta: -mpmath.log1p(mpmath.exp(-eta)),
    "cloglog": lambda eta: mpmath.log(-mpmath.expm1(-mpmath.exp(eta))),
    "probit": lambda eta: mpmath.log(mpmath.erfc(-eta / mpmath.sqrt(2)) / 2),
}


def expected(function, eta: float) -> list[float]:
    with mpmath.workdps(250):  # more than what is compared has zeros after the point
        return [float(each) for each in mpmath.diffs(lambda x: -function(x), mpmath.mpf(eta), 2)]


@pytest.mark.covering(1)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("eta", PREDICTORS)
def test_values_and_derivatives(link: str, eta: float) -> None:
    if link == "cloglog":
        eta = min(eta, 30.0)  # beyond, e^-u is 0 to more digits than there are
    for function, terms in ((LOG_SURVIVAL[link], LINKS[link].survive), (LOG_EVENT[link], LINKS[link].event)):
        found = [float(each[0]) for each in terms(np.array([eta]))]
        assert found == pytest.approx(expected(function, eta), rel=2e-11, abs=1e-200)


@pytest.mark.parametrize("link", LINKS)
def test_nothing_overflows(link: str) -> None:
    eta = np.array([-1e9, -1e300, -710.0, 710.0, 1e9])
    with np.errstate(all="ignore"):
        for terms in (LINKS[link].survive(eta), LINKS[link].event(eta)):
            assert not np.isnan(np.array(terms)).any()
            assert np.all(np.array(terms.curvature) >= 0)
    assert LINKS[link].event(np.array([1e9])).curvature == pytest.approx(0.0, abs=1e-200)
    assert float(LINKS["cloglog"].survive(np.array([710.0])).value[0]) == np.exp(LARGEST_EXPONENT)


@pytest.mark.parametrize("link", LINKS)
def test_an_interval_without_people_has_no_hazard(link: str) -> None:
    assert all(float(each[0]) == 0.0 for each in LINKS[link].survive(np.array([-1e9])))


@pytest.mark.parametrize("link", LINKS)
def test_the_predictor_inverts(link: str) -> None:
    p = np.array([1e-12, 0.02, 0.5, 0.97])
    assert -np.expm1(-LINKS[link].survive(LINKS[link].predictor(p)).value) == pytest.approx(p, rel=1e-12)
