"""Errors of hazards by arm under overlap weights."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from hdpstats.inference import draws
from hdpstats.inference.life_tables import LifeTable
from hdpstats.inference.overlap_errors import PropensityErrors, WeightedPeople
from hdpstats.inference.weighted_hazards import ArmHazards, hazard_errors, hazard_slopes

ALPHA = np.array([-0.5, 0.8, -0.4])
SLOPES = np.array([[0.0, 0.7, 0.4], [0.0, -0.5, 0.3]])
BASE = np.array([[0.10, 0.05], [0.15, 0.05], [0.2, 0.1]])
RECORDS = 2000


def people(count=2000):
    X = np.column_stack([np.ones(count), np.random.default_rng(1).normal(size=(count, 2))])
    return WeightedPeople.of(X, np.ones(count), ALPHA)


def chances(X):
    """Return the chance of each cause in each interval (J, K, n), the same in both arms."""
    return BASE[:, :, None] * np.exp(0.5 * (X @ SLOPES.T).T)[None]


def marginal(whom):
    """Return the hazards of weighted people (J, K), and how many are at risk (J,)."""
    e, survival, hazards, at_risk = whom.propensity, np.ones(len(whom.X)), [], []
    for chance in chances(whom.X):
        w = whom.weights * e * (1 - e) * survival
        hazards.append(chance @ w / w.sum())
        at_risk.append(RECORDS * w.sum())
        survival = survival * (1 - chance.sum(axis=0))
    return np.array(hazards), np.array(at_risk)


def maximum(X, treated):
    """Return the coefficients of a logistic regression, by Newton's method."""
    alpha = np.zeros(3)
    for _ in range(6):
        e = expit(X @ alpha)
        alpha = alpha + np.linalg.solve((X.T * (e * (1 - e))) @ X, X.T @ (treated - e))
    return alpha


def sampled(whom, seed, alpha):
    """Return the weighted hazards (2, J, K) of a sample, with its own maximum-likelihood propensity or at ``alpha``."""
    rng = np.random.default_rng(seed)
    X = whom.X[rng.integers(0, len(whom.X), RECORDS)]
    treated = rng.random(RECORDS) < expit(X @ ALPHA)
    if alpha is None:
        alpha = maximum(X, treated)
    e = expit(X @ alpha)
    w, left, found = np.where(treated, 1 - e, e), np.ones(RECORDS, dtype=bool), np.empty((2, 3, 2))
    for j, (first, second) in enumerate(chances(X)):
        u = rng.random(RECORDS)
        happened = np.where(u < first, 1, np.where(u < first + second, 2, 0))
        for arm in (0, 1):
            own = left & (treated == arm)
            found[arm, j] = [w[own & (happened == k)].sum() / w[own].sum() for k in (1, 2)]
        left &= happened == 0
    return found.ravel()


def tables_of(whom):
    hazards, at_risk = marginal(whom)
    events = hazards * at_risk[:, None]
    left = at_risk - events.sum(axis=1)
    censored = left - np.append(at_risk[1:], left[-1])
    table = LifeTable(
        cuts=np.arange(4.0), events=events, censored=censored, stayed=left[-1], entered=None, sd=1e-9, within=False
    )
    table.__dict__["rates"] = hazards  # in place of smoothed ones
    return table, table


@pytest.fixture(scope="module")
def propensity():
    whom = people()
    sampling = np.linalg.inv(RECORDS * whom.hessian)
    return PropensityErrors(
        draws=draws.normal(draws.generator("1" * 64), sampling, 2000), sampling=sampling, privacy=0 * sampling
    )


@pytest.mark.wide
def test_errors_are_those_of_repeated_samples(propensity):
    """Variances, and covariances over intervals, causes and arms, against samples with propensities of their own."""
    whom = people()
    slopes = 0.5 * SLOPES
    found = hazard_errors(tables_of(whom), whom, slopes, propensity, seed="2" * 64)
    repeated = np.array([sampled(whom, seed, None) for seed in range(300)])
    expected = np.cov(repeated, rowvar=False)
    sd = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(np.sqrt(np.diag(found.whole)) / sd, 1.0, atol=0.15)
    apart = (found.whole - expected) / np.outer(sd, sd)
    assert np.abs(apart).max() < 0.27
    contrast = np.concatenate([-np.ones(6), np.ones(6)])  # all hazards of the treated less those of the untreated
    known = contrast @ expected @ contrast
    assert contrast @ found.whole @ contrast == pytest.approx(known, rel=0.2)
    size = found.whole.shape[0] // 2
    np.testing.assert_array_equal(found.block(0, 1, size), found.whole[:size, size:])


def test_errors_are_covariances_where_an_arm_seems_to_weigh_too_much(propensity):
    """Noise may make an arm look larger than people with those errors of the propensity can be.

    The correlation that is taken off then exceeds what it is taken off from: variances below 0 stopped the reading of
    curves that were paid for.
    """
    whom = people()
    tables = [
        replace(table, events=40.0 * table.events, censored=40.0 * table.censored, stayed=40.0 * table.stayed)
        for table in tables_of(whom)
    ]
    found = hazard_errors(tables, whom, 0.5 * SLOPES, propensity, seed="2" * 64)
    for part in (found.whole, found.sampling):
        assert np.linalg.eigvalsh(part)[0] > -1e-12 * np.abs(part).max()
        assert np.diag(part).min() > 0


def test_without_covariates_it_is_greenwood_with_squared_weights(propensity):
    """Where all have the same chance of treatment weights are equal, and the propensity moves nothing."""
    X = np.ones((50, 1))
    whom = WeightedPeople.of(X, np.ones(50), np.array([-0.4]))
    e = expit(-0.4)
    hazards, exposed = np.array([[0.1, 0.05], [0.2, 0.1]]), np.array([500.0, 300.0])
    arm = ArmHazards.of(whom, np.zeros((2, 1)), hazards, exposed)
    own, crossed = arm.equations(whom, 1)
    for j, h in enumerate(hazards):
        block = own[2 * j : 2 * j + 2, 2 * j : 2 * j + 2]
        np.testing.assert_allclose(block, (1 - e) * (np.diag(h) - np.outer(h, h)) / exposed[j], rtol=1e-12)
    np.testing.assert_allclose(own[:2, 2:], 0.0, atol=1e-18)
    np.testing.assert_allclose(crossed, 0.0, atol=1e-15)
    np.testing.assert_allclose(arm.displaced(whom, np.array([[0.3], [-0.2]]), 0), 0.0, atol=1e-15)


def test_hazards_of_people_are_those_released():
    whom = people()
    hazards, exposed = marginal(whom)
    arm = ArmHazards.of(whom, 0.5 * SLOPES, hazards, exposed)
    e = whom.propensity
    w = whom.weights * e * (1 - e) * arm.at_risk
    np.testing.assert_allclose(np.einsum("jm,jkm->jk", w, arm.chances) / w.sum(axis=1)[:, None], hazards, rtol=1e-9)


def test_wrong_coefficients_move_hazards_as_wrong_weights_do():
    """What is displaced against weighted averages by hand."""
    whom = people()
    hazards, exposed = marginal(whom)
    arm = ArmHazards.of(whom, 0.5 * SLOPES, hazards, exposed)
    error = np.array([0.1, 0.3, -0.2])
    moved = arm.displaced(whom, error[None], 1)[0].reshape(3, 2)
    own, true = whom.propensity, expit(whom.X @ (ALPHA - error))
    for j in range(3):
        right, wrong = (w * arm.at_risk[j] for w in (true * (1 - true), true * (1 - own)))
        expected = [arm.chances[j, k] @ wrong / wrong.sum() - arm.chances[j, k] @ right / right.sum() for k in (0, 1)]
        np.testing.assert_allclose(moved[j], expected, rtol=1e-10)


def test_slopes_are_the_maximum_of_the_penalised_likelihood():
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(200), rng.normal(size=(200, 2))])
    treated = rng.integers(0, 2, 200).astype(float)
    time, cause = rng.exponential(4 * np.exp(-0.5 * X[:, 1])), rng.integers(0, 3, 200)
    cuts = np.array([0.0, 1.0, 3.0, 6.0])
    found = hazard_slopes(X, treated, time, cause, causes=3, cuts=cuts)
    assert found.shape == (3, 3)
    np.testing.assert_array_equal(found[:, 0], 0.0)
    np.testing.assert_array_equal(found[2], 0.0)  # a cause without events
    Z = np.column_stack([treated, X[:, 1:]])
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    spent = np.clip(np.minimum(time[:, None], cuts[1:]) - cuts[:-1], 0, None)
    failed = (cause == 1) & (time <= 6)

    def loss(beta):
        eta = Z @ beta
        inside = [np.log(spent[:, j] @ np.exp(eta)) for j in np.searchsorted(cuts[1:], time[failed])]
        return np.sum(inside) - eta[failed].sum() + 0.5 * 1e-3 * 200 * beta @ beta

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-8}).x / np.column_stack(
        [treated, X[:, 1:]]
    ).std(axis=0)
    np.testing.assert_allclose(found[0, 1:], best[1:], atol=1e-5)


def test_events_where_nobody_spends_time_tell_nothing():
    """All at the time 0, and some there beside others later: slopes are those of the others."""
    rng = np.random.default_rng(3)
    X = np.column_stack([np.ones(80), rng.normal(size=80)])
    treated, cuts = rng.integers(0, 2, 80).astype(float), np.array([0.0, 1.0, 3.0])
    cause = np.ones(80, dtype=np.int64)
    np.testing.assert_array_equal(hazard_slopes(X, treated, np.zeros(80), cause, causes=1, cuts=cuts), 0.0)
