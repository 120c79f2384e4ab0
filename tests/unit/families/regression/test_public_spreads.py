"""The error of a public fit whose prior's spread public rows chose themselves: over all spreads, by their evidence."""

import numpy as np
import pytest
from scipy.special import expit

from hdpstats.families.regression import public
from hdpstats.families.regression.public import INTERCEPT_SPREAD, PRIOR_SPREADS, likelihood_fit
from hdpstats.families.regression.rows import RegressionRows
from hdpstats.losses import LogisticLoss

BETA = np.array([-1.0, 0.6, -0.4, 0.5])


def fit_of(data):
    return likelihood_fit(data, data, first=1, parts=np.eye(data.dimension))


def rows(n, seed=0, beta=BETA):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, len(beta) - 1))])
    y = (rng.random(n) < expit(X @ beta)).astype(float)
    return RegressionRows.of(LogisticLoss(), np.asfortranarray(X), y, weights=np.ones(n), offset=np.zeros(n))


def by_hand(data, theta):
    """Return the second moments about ``theta`` with Newton's method at every spread."""
    X, y = data.X, data.y
    means, inverses, evidence = [], [], []
    for spread in PRIOR_SPREADS:
        ridge = np.array([INTERCEPT_SPREAD**-2.0, *[spread**-2.0] * 3])
        at = np.zeros(4)
        for _ in range(50):
            p = expit(X @ at)
            H = X.T @ ((p * (1.0 - p))[:, None] * X) + np.diag(ridge)
            at = at - np.linalg.solve(H, X.T @ (p - y) + ridge * at)
        loss = np.sum(np.logaddexp(0.0, X @ at) - y * (X @ at)) + 0.5 * np.sum(ridge * at**2)
        evidence.append(0.5 * np.sum(np.log(ridge)) - 0.5 * np.linalg.slogdet(H)[1] - loss)
        means.append(at)
        inverses.append(np.linalg.inv(H))
    shares = np.exp(np.array(evidence) - max(evidence))
    shares /= shares.sum()
    apart = np.array(means) - theta
    p = expit(X @ theta)
    meat = X.T @ ((p * (1.0 - p))[:, None] * X)
    priors = [np.array([INTERCEPT_SPREAD**-2.0, *[s**-2.0] * 3]) for s in PRIOR_SPREADS]
    own = [V @ (meat + np.diag(P)) @ V for V, P in zip(inverses, priors, strict=True)]
    square = means[-1] ** 2 - np.diag(inverses[-1] @ meat @ inverses[-1])
    pulled = [V * P for V, P in zip(inverses, priors, strict=True)]
    large = [(B * np.maximum(square - 1.0 / P, 0.0)) @ B.T for B, P in zip(pulled, priors, strict=True)]
    return sum(w * (V + np.outer(d, d) + E) for w, V, d, E in zip(shares, own, apart, large, strict=True))


def test_the_error_is_the_mixture_over_spreads():
    data = rows(60)
    fit = fit_of(data)
    assert fit.error == pytest.approx(by_hand(data, fit.theta), rel=1e-4, abs=1e-5)


def test_few_rows_do_not_tell_the_spread_and_many_do():
    few = fit_of(rows(40, seed=2))
    assert np.all(np.diag(few.error)[1:] > 1.05 * np.diag(few.covariance)[1:])
    many = fit_of(rows(4000))
    assert np.diag(many.error) == pytest.approx(np.diag(many.covariance), rel=0.02)


def test_one_large_coefficient_among_many_is_not_taken_for_as_small_as_the_others():
    """Its penalised estimate misses it by several of the errors that one spread for all would claim."""
    beta = np.append([0.0, 0.6], np.zeros(18))
    off = []
    for seed in range(40):
        fit = fit_of(rows(320, seed=seed, beta=beta))
        off.append([(fit.theta[1] - 0.6) ** 2, fit.error[1, 1], fit.covariance[1, 1]])
    missed, error, alone = np.mean(off, axis=0)
    assert alone < 0.6 * missed < error
    nothing = [
        np.diag(fit.error / fit.covariance)[1:] for fit in map(fit_of, (rows(320, s, 0 * beta) for s in range(20)))
    ]
    assert np.median(nothing) < 1.1


def test_queries_rest_on_the_spread_of_largest_evidence(monkeypatch):
    data = rows(40)
    before = fit_of(data)
    monkeypatch.setattr(public, "_over_spreads", lambda *_, **__: np.eye(4))
    after = fit_of(data)
    assert np.array_equal(after.error, np.eye(4))
    assert np.array_equal(before.covariance, after.covariance)
    assert np.array_equal(before.theta, after.theta)
