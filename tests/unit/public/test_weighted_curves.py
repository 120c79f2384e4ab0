"""Weighted curves of public rows: what each row moves them by, against fits in which it counts a little more."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit

from hdpstats.inference.log_rank import weighted_score
from hdpstats.public.follow_up import FollowUp, risk_sets
from hdpstats.public.weighted_curves import ArmSets, WeightedRows

ROWS, STEP = 60, 1e-5


def drawn():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(ROWS), rng.normal(size=(ROWS, 2))])
    treated = (rng.random(ROWS) < expit(X @ [-0.3, 0.8, 0.3])).astype(float)
    time = np.ceil(rng.exponential(4, ROWS)).clip(1, 9)
    return X, treated, time, rng.integers(0, 3, ROWS)


def fitted(case):
    """Return the weighted rows of a fit in which rows count as often as said, and these numbers."""
    X, treated, time, cause = drawn()
    fit = sm.GLM(treated, X, family=sm.families.Binomial(), freq_weights=case).fit(tol=1e-14, maxiter=100)
    e = expit(X @ fit.params)
    return WeightedRows(
        X=X,
        treated=treated,
        chance=e,
        time=time,
        cause=cause,
        causes=2,
        inverse=np.linalg.inv((X.T * (e * (1 - e))) @ X),
        others=np.zeros((3, 3)),
    )


def curves_of(rows, case, arm):
    own = rows.own(arm)
    return risk_sets(FollowUp(time=rows.time[own], cause=rows.cause[own], causes=2, weights=(rows.weights * case)[own]))


def estimates(case):
    """Return what is estimated of the treated, and the log-rank score, where rows count as often as said."""
    rows = fitted(case)
    sets = [curves_of(rows, case, arm) for arm in (0, 1)]
    curves = sets[1].curves
    five = np.array([5.0])
    score = weighted_score([ArmSets(rows=rows, arm=arm, sets=each) for arm, each in enumerate(sets)])
    return np.array(
        [
            np.log(curves.at(curves.survival, five, start=1.0)[0]),
            curves.at(curves.incidence[:, 0], five, start=0.0)[0],
            curves.at(curves.incidence[:, 1], five, start=0.0)[0],
            sets[1].restricted_mean(6.0)[0],
            score.total[1],
        ]
    )


@pytest.fixture(scope="module")
def moved():
    """What each row moves the estimates by, by differences (n, 5): the propensity is fitted anew."""
    found = np.empty((ROWS, 5))
    for place in range(ROWS):
        up, down = np.ones(ROWS), np.ones(ROWS)
        up[place] += STEP
        down[place] -= STEP
        found[place] = (estimates(up) - estimates(down)) / (2 * STEP)
    return found


def test_influences_are_derivatives_by_how_often_a_row_counts(moved):
    rows = fitted(np.ones(ROWS))
    arm = rows.arms[1]
    found = [arm.of_logarithm(5.0), arm.of_incidence(0, 5.0), arm.of_incidence(1, 5.0), arm.of_mean(6.0)]
    for place, each in enumerate(found):
        np.testing.assert_allclose(each.rows, moved[:, place], atol=2e-6)
    assert arm.errors(np.array([5.0]))[0] == pytest.approx(np.sqrt(np.sum(moved[:, 0] ** 2)), rel=1e-4)


def test_the_variance_of_the_score_is_that_of_what_rows_move_it_by(moved):
    rows = fitted(np.ones(ROWS))
    score = weighted_score(rows.arms)
    assert score.sampling[1, 1] == pytest.approx(np.sum(moved[:, 4] ** 2), rel=1e-4)
    assert score.sampling[0, 1] == pytest.approx(-score.sampling[1, 1])
    assert score.total.sum() == pytest.approx(0.0, abs=1e-12)


def test_rows_that_lack_the_outcome_count_in_the_propensity_alone():
    rows = fitted(np.ones(ROWS))
    more = rows.coefficients[:7].T @ rows.coefficients[:7]
    with_others = WeightedRows(**{name: getattr(rows, name) for name in rows.__dataclass_fields__} | {"others": more})
    own, known = with_others.arms[1].of_mean(6.0), rows.arms[1].of_mean(6.0)
    extra = known.slope @ more @ known.slope
    assert with_others.covariance(own, own) == pytest.approx(rows.covariance(known, known) + extra)
    assert extra > 0
