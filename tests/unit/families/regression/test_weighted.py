"""Regressions of people weighted by their chance of treatment: fits to public rows, errors by stacked equations."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.regression.weighted import Dependence, WeightedPublic, dependence_of
from hdpstats.formulas import compile_design
from hdpstats.formulas.design import whitened_matrix
from hdpstats.inference.overlap_errors import Stacked, WeightedPeople
from hdpstats.losses import BoundedSquares, LogisticLoss, PoissonLoss
from hdpstats.public.moments import PublicFit

SCHEMA = hdp.Schema(
    a=hdp.Binary(),
    x=hdp.Continuous(-9, 9),
    f=hdp.Categorical(["p", "q", "r"]),
    died=hdp.Binary(),
    k=hdp.Continuous(0, 40),
)
PROPENSITY = "a ~ x + f"


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    n = 400
    x, f = rng.normal(size=n), rng.choice(["p", "q", "r"], n)
    a = rng.random(n) < expit(-0.4 + 0.7 * x + 0.5 * (f == "q"))
    died = rng.random(n) < expit(-0.5 + 0.6 * x - 0.5 * a)
    frame = pd.DataFrame(
        {"a": a * 1.0, "x": x, "f": f, "died": died * 1.0, "k": rng.poisson(np.exp(0.5 + 0.4 * x)) * 1.0}
    )
    frame.loc[rng.random(n) < 0.1, ["died", "k"]] = np.nan  # these take part in the propensity model alone
    frame.loc[rng.random(n) < 0.05, "x"] = np.nan
    return frame


def by_hand(rows, family, formula_columns, outcome):
    """Return the weighted fit of statsmodels, and the sandwich of both models stacked."""
    whole = rows.dropna(subset=["a", "x", "f"])
    X = np.column_stack([np.ones(len(whole)), whole["x"], whole["f"] == "q", whole["f"] == "r"]).astype(float)
    a = whole["a"].to_numpy()
    alpha = sm.GLM(a, X, family=sm.families.Binomial()).fit(tol=1e-14).params
    e = expit(X @ alpha)
    w = np.where(a == 1, 1 - e, e)
    there = whole[outcome].notna().to_numpy()
    part = whole[there]
    Z = np.column_stack([np.ones(len(part)), *(column(part) for column in formula_columns)])
    y = part[outcome].to_numpy()
    fit = sm.GLM(y, Z, family=family, freq_weights=w[there]).fit(tol=1e-14)
    mean = fit.predict(Z)
    slope = family.link.inverse_deriv(Z @ fit.params)
    residual = mean - y
    A = (Z.T * (w[there] * slope)) @ Z
    dw = np.where(a == 1, -1.0, 1.0) * e * (1 - e)
    B = (Z.T * (dw[there] * residual)) @ X[there]
    inside = (X.T * (e * (1 - e))) @ X
    phi = (X * (a - e)[:, None]) @ np.linalg.inv(inside) @ B.T
    phi[there] += (w[there] * residual)[:, None] * Z
    inverse = np.linalg.inv(A)
    return fit.params, inverse @ phi.T @ phi @ inverse


def treatment(part):
    return part["a"]


def covariate(part):
    return part["x"]


def product(part):
    return part["a"] * part["x"]


@pytest.mark.parametrize(
    ("model", "formula", "columns", "family"),
    [
        (hdpf.logit, "died ~ a", (treatment,), sm.families.Binomial()),
        (hdpf.logit, "died ~ a * x", (treatment, covariate, product), sm.families.Binomial()),
        (hdpf.linear, "k ~ a", (treatment,), sm.families.Gaussian()),
        (hdpf.poisson, "k ~ a + x", (treatment, covariate), sm.families.Poisson()),
        (hdpf.linear, "k ~ a * x", (treatment, covariate, product), sm.families.Gaussian()),  # fitted below 0 as well
    ],
    ids=["logit", "interaction", "linear", "poisson", "beyond bounds"],
)
def test_the_fit_to_public_rows_is_that_of_statsmodels_with_a_stacked_sandwich(rows, model, formula, columns, family):
    study = hdp.Study(public=rows, schema=SCHEMA)
    weighting = hdp.propensity(PROPENSITY, study).fit_public().weights()
    found = model(formula, study, weighting=weighting).fit_public()
    outcome = formula.split(" ~ ")[0]
    params, covariance = by_hand(rows, family, columns, outcome)
    np.testing.assert_allclose(found.params, params, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.cov_params(), covariance, rtol=1e-7, atol=1e-10)
    assert found.nobs == int(rows.dropna(subset=["a", "x", "f", outcome]).shape[0])
    assert found.guarantee is None
    assert found.released.adjustment is not None
    text = str(found.summary())
    assert "Propensity model: a ~ x + f" in text
    assert "stacked" in text


def public_side(loss, *, theta, seed=5, people=400, noise=0.0):
    """Return people whose regression on the treatment has coefficients ``theta``, whitened by nothing."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(people), rng.normal(size=(people, 2))])
    design = compile_design("died ~ a", SCHEMA)
    raw = np.concatenate([np.column_stack([np.ones(people), np.full(people, arm)]) for arm in (0.0, 1.0)])
    geometry = design.whitening(raw)
    whitened = whitened_matrix(geometry, raw)
    standing = WeightedPeople.of(X, np.ones(people), np.array([-0.4, 0.8, -0.5]))
    e = standing.propensity
    D = geometry.dimension
    back = np.linalg.inv(geometry.to_raw())
    return WeightedPublic(
        geometry=geometry,
        X=np.asarray(whitened.X),
        mallows=np.ones(2 * people),
        weights=np.tile(e * (1 - e), 2),
        fit=PublicFit(theta=back @ theta, covariance=np.eye(D), information=np.eye(D)),
        loss=loss,
        standing=standing,
        noise=noise * np.eye(3),
        dependence=Dependence(lean=X[:, 1] * 0.7 + X[:, 2] * 0.4, spread=np.full(2, 0.3)),
        rows=people,
        raked=True,
    )


LOSSES = {
    "logistic": (LogisticLoss(), np.array([-0.3, -0.6])),
    "squares": (BoundedSquares(lower=-9.0, upper=9.0), np.array([0.4, -0.6])),
    "poisson": (PoissonLoss(cap=40.0, upper=40.0), np.array([0.4, -0.6])),
}


def drawn(side, theta, rng):
    """Return one person of each who stands for others: treated by chance, with an outcome, and the influence."""
    e, n = side.standing.propensity, side.people
    a = (rng.random(n) < e).astype(int)
    means = side._means(theta)[a, np.arange(n)]
    sd = np.sqrt(side._variances(side._means(theta))[a, np.arange(n)])
    y = means + sd * rng.choice([-1.0, 1.0], n)
    z = side.X.reshape(2, n, -1)[a, np.arange(n)]
    w = np.where(a == 1, 1 - e, e)
    return a, y, z, w


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("name", LOSSES)
def test_the_covariance_of_scores_is_that_of_drawn_people(name, share):
    """``J`` in closed form, against 200 draws of all people: their weighted scores with the propensity's part.

    With a share of one half as many people again are in the propensity model, and lack the outcome.
    """
    loss, raw = LOSSES[name]
    side = replace(public_side(loss, theta=raw), share=share)
    theta, rng = side.centre, np.random.default_rng(8)
    people = side.standing
    slope = side.coupled(side.expected(theta)) @ np.linalg.inv(people.hessian)
    total = np.zeros((2, 2))
    for _ in range(200):
        a, y, z, w = drawn(side, theta, rng)
        score = loss.score(z @ theta, np.zeros(len(y))) - y
        treated = a - people.propensity
        if share < 1.0:
            treated = share * (treated + drawn(side, theta, rng)[0] - people.propensity)
        phi = (w * score)[:, None] * z + (treated[:, None] * people.X) @ slope.T
        total += phi.T @ phi / side.people / 200
    found = side.moments(theta, records=1.0)
    np.testing.assert_allclose(found.J, total, atol=0.03 * np.trace(total))
    assert np.abs(side._scores(theta)[0]).max() > 0.05  # people are unlike their arm's mean


@pytest.mark.parametrize("name", LOSSES)
def test_the_weighted_score_is_0_at_the_coefficients(name):
    loss, raw = LOSSES[name]
    side = public_side(loss, theta=raw)
    r = side._scores(side.centre)[0].ravel()
    score = side.X.T @ (np.tile(side.standing.weights, 2) * side.weights * r)
    np.testing.assert_allclose(score, 0.0, atol=1e-10)


@pytest.mark.parametrize("name", LOSSES)
def test_what_the_propensity_moves_is_the_slope_of_the_weighted_score(name):
    """``B``, against the weighted score at coefficients of the propensity a little apart, with who is treated as is."""
    loss, raw = LOSSES[name]
    side = public_side(loss, theta=raw)
    r, people = side._scores(side.centre)[0], side.standing
    e = people.propensity

    def score(coefficients):
        own = expit(people.X @ coefficients)
        untreated, treated = side._arms
        base = people.weights
        return untreated.T @ (base * (1 - e) * own * r[0]) + treated.T @ (base * e * (1 - own) * r[1])

    step = 1e-5
    slopes = [
        (score(people.coefficients + step * each) - score(people.coefficients - step * each)) / (2 * step)
        for each in np.eye(3)
    ]
    np.testing.assert_allclose(side.coupled(side.expected(side.centre)), np.array(slopes).T, atol=1e-8)


def test_a_regression_on_the_arm_alone_has_the_errors_of_an_effect():
    """The difference of two weighted means: the closed form of `hdpstats.inference.overlap_errors`."""
    loss, raw = LOSSES["squares"]
    side = replace(
        public_side(loss, theta=raw), dependence=Dependence(lean=np.linspace(-1, 1, 400), spread=np.full(2, 0.3))
    )
    n = 5_000
    moments = side.moments(side.centre, records=n)
    inverse = np.linalg.inv(moments.H)
    T = side.geometry.to_raw()
    found = (T @ inverse @ moments.J @ inverse @ T.T)[1, 1]
    people, e = side.standing, side.standing.propensity
    means = side._means(side.centre)
    sampling = np.linalg.inv(n * people.hessian)
    stacked = Stacked(
        people=people,
        means=means,
        residual=np.full_like(means, 0.3),
        sampling=sampling,
        weights=np.full(2, n * people.overlap),
    )
    own, crossed = stacked.equations()
    w = people.weights * e * (1 - e)
    w = w / w.sum()
    centred = means - (means @ w)[:, None]
    slope = np.stack([(centred[0] * w * (1 - e)) @ people.X, -(centred[1] * w * e) @ people.X])  # of h
    whole = own + slope @ sampling @ slope.T + slope @ crossed.T + crossed @ slope.T
    contrast = np.array([-1.0, 1.0])
    assert found == pytest.approx(contrast @ whole @ contrast, rel=0.01)


def test_estimated_weights_balance_what_is_linear_in_the_covariates():
    """Where an outcome is linear in them and has no residual, the sampling error of the difference is 0."""
    loss, raw = LOSSES["squares"]
    side = public_side(loss, theta=raw)
    side = replace(side, dependence=replace(side.dependence, spread=np.full(2, 1e-12)))
    moments = side.moments(side.centre, records=1.0)
    inverse, T = np.linalg.inv(moments.H), side.geometry.to_raw()
    covariance = T @ inverse @ moments.J @ inverse @ T.T
    assert covariance[1, 1] < 1e-3 * covariance[0, 0]


def test_noise_of_the_propensity_adds_what_it_moves():
    loss, raw = LOSSES["logistic"]
    side = public_side(loss, theta=raw, noise=0.01)
    theta = side.centre
    B, H = side.coupled(side.expected(theta)), side.moments(theta, records=1.0).H
    expected = 0.01 * np.linalg.inv(H) @ B @ B.T @ np.linalg.inv(H)
    np.testing.assert_allclose(side.of_propensity(theta), expected, rtol=1e-9)
    assert not public_side(loss, theta=raw).of_propensity(theta).any()


def test_weightings_of_the_people_average_their_moments():
    loss, raw = LOSSES["logistic"]
    side = public_side(loss, theta=raw)
    whole = side.moments(side.centre, records=10.0)
    even = side.moments(side.centre, records=10.0, row_weights=np.full((3, side.people), 1.0 / side.people))
    np.testing.assert_allclose(even.J, np.stack([whole.J] * 3), rtol=1e-10)
    np.testing.assert_allclose(even.H, np.stack([whole.H] * 3), rtol=1e-10)


def test_outcomes_of_public_people_tell_how_they_depend_on_covariates(rows):
    study = hdp.Study(private=rows, public=rows.copy(), schema=SCHEMA, budget=hdp.Budget(epsilon=40))
    weighting = hdp.propensity(PROPENSITY, study, epsilon=10).weights()
    side = hdpf.logit("died ~ a", study, weighting=weighting)._spec.public
    assert isinstance(side, WeightedPublic)
    slope = np.polyfit(side.standing.X[:, 1], side.dependence.lean, 1)[0]
    assert 0.2 < slope < 1.1  # .6 in truth
    counts = hdpf.poisson("k ~ a", study, weighting=weighting)._spec.public
    assert ((counts.dependence.spread > 0.6) & (counts.dependence.spread < 1.5)).all()


@pytest.mark.parametrize("name", ["squares", "poisson", "logistic"])
def test_outcomes_of_either_arm_have_the_spread_of_that_arm(name):
    rng = np.random.default_rng(8)
    X = np.column_stack([np.ones(4000), rng.normal(size=4000)])
    a = rng.integers(0, 2, 4000).astype(float)
    Z = np.column_stack([np.ones(4000), a])
    number = np.where(a == 1, 8, 1)
    y, expected = {
        "squares": (0.2 * a + rng.normal(size=4000) / np.sqrt(number), [1.0, 1 / 8]),
        "poisson": (rng.poisson(3.0 * number) / number, [1.0, 1 / 8]),
        "logistic": (rng.binomial(number, 0.4) / number, [1.0, 1.69 / 8]),  # an outcome may be one of fewer rows
    }[name]
    loss = LOSSES[name][0].plain
    assert dependence_of(loss, Z, X, y, a, people=X).spread == pytest.approx(expected, rel=0.1)
