"""Hazard models of people weighted by their chance of treatment: fits to public rows, errors by stacked equations."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit

import hdpstats.api as hdp
import hdpstats.formula.api as hdpf
from hdpstats.families.hazard.weighted import WeightedHazards
from hdpstats.records.averages import CohortMoment, CohortMoments, MomentKind

INTERVALS = 4
SCHEMA = hdp.Schema(
    t=hdp.Duration(4.0), d=hdp.Binary(), a=hdp.Binary(), x=hdp.Continuous(-9, 9), f=hdp.Categorical(["p", "q", "r"])
)
PROPENSITY = "a ~ x + f"


def people(n, seed, missing=0.0):
    rng = np.random.default_rng(seed)
    x, f = rng.normal(size=n), rng.choice(["p", "q", "r"], n)
    a = (rng.random(n) < expit(-0.4 + 0.7 * x + 0.5 * (f == "q"))) * 1.0
    event, censored = rng.exponential(1.0 / (0.25 * np.exp(0.6 * x - 0.5 * a))), rng.uniform(0.5, 7.0, n)
    frame = pd.DataFrame({"t": np.minimum(event, censored), "d": (event <= censored) * 1.0, "a": a, "x": x, "f": f})
    frame.loc[frame["t"] > 4.0, ["t", "d"]] = [4.0, 0.0]
    frame.loc[rng.random(n) < 2 * missing, ["t", "d"]] = np.nan  # these take part in the propensity model alone
    frame.loc[rng.random(n) < missing, "x"] = np.nan
    return frame


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return people(400, 3, missing=0.05)


LINKS = {
    "logit": sm.families.links.Logit(),
    "cloglog": sm.families.links.CLogLog(),
    "probit": sm.families.links.Probit(),
}


def by_hand(rows, link, terms):
    """Return the weighted fit of statsmodels to persons and periods, and the sandwich over persons, both stacked."""
    whole = rows.dropna(subset=["a", "x", "f"])
    X = np.column_stack([np.ones(len(whole)), whole["x"], whole["f"] == "q", whole["f"] == "r"]).astype(float)
    a = whole["a"].to_numpy()
    e = expit(X @ sm.GLM(a, X, family=sm.families.Binomial()).fit(tol=1e-14).params)
    w = np.where(a == 1, 1 - e, e)
    there = whole["t"].notna().to_numpy()
    periods = []
    for person in np.flatnonzero(there):
        row = whole.iloc[person]
        last = max(int(np.ceil(row["t"])), 1)
        periods += [(person, s, float(s == last and row["d"] == 1)) for s in range(1, last + 1)]
    person, interval, event = (np.array(each) for each in zip(*periods, strict=True))
    Z = np.column_stack([*(interval == s for s in range(1, INTERVALS + 1)), *terms(whole.iloc[person])]).astype(float)
    family = sm.families.Binomial(link=LINKS[link])
    model = sm.GLM(event, Z, family=family, freq_weights=w[person])
    theta = model.fit(tol=1e-14, maxiter=200).params
    bread = -model.hessian(theta, observed=True)
    of_periods = -sm.GLM(event, Z, family=family).score_obs(theta)  # of minus the log-likelihood, unweighted
    u = np.zeros((len(whole), Z.shape[1]))
    np.add.at(u, person, of_periods)
    dw = np.where(a == 1, -1.0, 1.0) * e * (1 - e)
    B = (u.T * dw) @ X
    information = (X.T * (e * (1 - e))) @ X
    phi = w[:, None] * u + (X * (a - e)[:, None]) @ np.linalg.inv(information) @ B.T
    inverse = np.linalg.inv(bread)
    return theta, inverse @ phi.T @ phi @ inverse


def treatment(part):
    return (part["a"],)


def interaction(part):
    return part["a"], part["x"], part["a"] * part["x"]


@pytest.mark.parametrize(
    ("link", "formula", "terms"),
    [
        ("logit", "a", treatment),
        ("cloglog", "a", treatment),
        ("probit", "a", treatment),
        ("cloglog", "a * x", interaction),
    ],
    ids=["logit", "cloglog", "probit", "interaction"],
)
def test_the_fit_to_public_rows_is_that_of_statsmodels_with_a_stacked_sandwich(rows, link, formula, terms):
    study = hdp.Study(public=rows, schema=SCHEMA)
    weighting = hdp.propensity(PROPENSITY, study).fit_public().weights()
    model = hdpf.hazard(
        f"Surv(t, d) ~ {formula}", study, intervals=INTERVALS, baseline="dummies", link=link, weighting=weighting
    )
    found = model.fit_public()
    theta, covariance = by_hand(rows, link, terms)
    np.testing.assert_allclose(found.params, theta, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.cov_params(), covariance, rtol=1e-7, atol=1e-8)
    assert found.nobs == len(rows.dropna())
    assert found.guarantee is None
    text = str(found.summary())
    assert "Propensity model: a ~ x + f" in text
    assert "stacked" in text


@pytest.fixture(scope="module", params=["logit", "cloglog"])
def side(request) -> WeightedHazards:
    """Return the public side of a private study, under a cap that weighs some people down."""
    study = hdp.Study(private=people(3000, 5), public=people(250, 6), schema=SCHEMA, budget=hdp.Budget(epsilon=30))
    weighting = hdp.propensity(PROPENSITY, study, epsilon=8.0).weights()
    terms = {"intervals": INTERVALS, "baseline": "dummies", "link": request.param, "weighting": weighting}
    model = hdpf.hazard("Surv(t, d) ~ a * x", study, cap=1.3, **terms)
    found = model._spec.side(model._spec.ask(epsilon=1, records=3000, share=0, replicate=1).model)
    assert found.arms.spells.weights.min() < 0.7
    return found


def drawn(side, chances, gradients, rng):
    """Return who is treated, and the score of each person who stands for others, of a follow-up that is drawn."""
    n, e = side.people, side.standing.propensity
    a = (rng.random(n) < e).astype(int)
    place = a * n + np.arange(n)
    end = (np.cumsum(chances[place], axis=1) < rng.random(n)[:, None]).sum(axis=1)
    return a, gradients[place, np.minimum(end, chances.shape[1] - 1)]


def test_chances_of_all_follow_ups_are_one_in_sum(side):
    chances = side._leaning.chances_of(side._constants(side.centre), slice(0, 2 * side.people))
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-10)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_covariance_of_scores_is_that_of_drawn_people(side, share):
    """``J`` in closed form, against draws of all people: scores of follow-ups with the propensity's part.

    With a share of one half as many people again are in the propensity model, and lack the outcome.
    """
    side, rng = side.sharing(share), np.random.default_rng(8)
    theta, people = side.centre + 0.2, side.standing
    scores = side.expected(theta)
    slope = side.coupled(scores) @ np.linalg.pinv(people.hessian)
    chances = side._leaning.chances_of(side._constants(theta), slice(0, 2 * side.people))
    of_people = chances, side.arms.gradients(theta, slice(0, 2 * side.people)), rng
    D, total, count = side.dimension, 0.0, 400
    for _ in range(count):
        a, u = drawn(side, *of_people)
        e = people.propensity
        w = np.where(a == 1, 1 - e, e)
        treated = a - e
        if share < 1.0:
            treated = share * (treated + drawn(side, *of_people)[0] - e)
        phi = w[:, None] * u + (treated[:, None] * people.X) @ slope.T
        total = total + (phi.T * people.weights) @ phi / count
    found = side._averages(theta, people.weights[None])
    n = side.people / (side.people + D)  # what is left where means are shrunk
    np.testing.assert_allclose(found.J[0] * np.where(np.eye(D) == 1, 1, 1 / n), total, atol=0.02 * np.trace(total))
    assert np.abs(scores.mean).max() > 0.02  # people are unlike the marginal model


def test_the_weighted_score_is_0_at_the_coefficients(side):
    theta, people = side.centre - 0.3, side.standing
    e = people.propensity
    mean = side.expected(theta).mean
    np.testing.assert_allclose((people.weights * e * (1 - e)) @ (mean[0] + mean[1]), 0.0, atol=1e-9)


def test_the_curvature_is_the_slope_of_the_expected_score(side):
    """At fixed hazards of people: differences of the mean score at coefficients a little apart."""
    theta, step = side.centre - 0.3, 1e-5
    constants, everybody = side._constants(theta), slice(0, 2 * side.people)
    chances = side._leaning.chances_of(constants, everybody)

    def score(at):
        return np.einsum("bo,bod->d", chances, side.arms.gradients(at, everybody))

    D = side.dimension
    slopes = np.array([(score(theta + step * each) - score(theta - step * each)) / (2 * step) for each in np.eye(D)])
    i, j = np.triu_indices(D)
    np.testing.assert_allclose(side.expected(theta).curvature.sum(axis=(0, 1)), slopes[i, j], rtol=1e-5, atol=1e-4)


def test_what_the_propensity_moves_is_the_slope_of_the_weighted_score(side):
    """``B``, against the weighted score at coefficients of the propensity a little apart, with who is treated as is."""
    theta, people = side.centre - 0.3, side.standing
    scores, e = side.expected(theta), people.propensity
    mean = scores.mean

    def score(coefficients):
        own = expit(people.X @ coefficients)
        return (people.weights * (1 - e) * own) @ mean[0] + (people.weights * e * (1 - own)) @ mean[1]

    step = 1e-5
    slopes = [
        (score(people.coefficients + step * each) - score(people.coefficients - step * each)) / (2 * step)
        for each in np.eye(people.X.shape[1])
    ]
    np.testing.assert_allclose(side.coupled(scores), np.array(slopes).T, atol=1e-8)


def at_risk(shares):
    """Return what is known of the shares at risk after so many intervals."""
    moments = tuple(
        CohortMoment(variable="t", what=MomentKind.AT_RISK, value=value, noise_sd=0.01, time=time)
        for time, value in shares.items()
    )
    return CohortMoments(people=3000.0, people_sd=0.0, moments=moments, release_sha256="0" * 64)


def test_noisy_shares_at_risk_that_grow_are_averaged(side):
    assert side.followed_as(None) is side
    assert side.followed_as(at_risk({1.0: 0.5, 2.0: 0.3, 3.0: 0.4})).at_risk == pytest.approx([1.0, 0.5, 0.35, 0.35])
    assert side.followed_as(at_risk({1.0: 1.2, 2.0: 0.3, 3.0: -0.4})).at_risk == pytest.approx([1.0, 1.0, 0.3, 0.0])
    assert side.followed_as(at_risk({1.0: 0.6, 3.0: 0.2})).at_risk == pytest.approx([1.0, 0.6, 0.4, 0.2])


def test_as_many_are_at_risk_as_are_known_to_be(side):
    """Of both arms, by their chances: those who have had no event, and whom nothing has censored before."""
    followed = side.followed_as(at_risk({3.0: 0.2, 1.0: 0.5, 2.0: 0.4}))
    assert (followed.taken_alike, side.taken_alike[:9]) == ("outcomes given covariates", "follow-up")
    theta, e = followed.centre - 0.3, side.standing.propensity
    constants = followed._constants(theta)
    true = followed._leaning.at(constants)
    chances = true.chances_of(constants, slice(0, 2 * side.people))
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-10)
    failing, ending = chances[:, :INTERVALS], chances[:, INTERVALS:]
    reach = np.cumsum((failing + ending)[:, ::-1], axis=1)[:, ::-1]
    people = np.concatenate([side.standing.weights * (1 - e), side.standing.weights * e])
    np.testing.assert_allclose(people @ reach, [1.0, 0.5, 0.4, 0.2], atol=1e-9)
    np.testing.assert_allclose(
        (side.standing.weights * e * (1 - e)) @ followed.expected(theta).mean.sum(axis=0), 0.0, atol=1e-9
    )


def test_hazards_lean_as_public_ones_do(side):
    slope = np.polyfit(side.standing.X[:, 1], side.lean, 1)[0]
    assert 0.1 < slope < 0.9  # .6 in truth, of which the model's own term has a part


def test_expectations_in_pieces_are_the_same(side, monkeypatch):
    whole = side.expected(side.centre)
    monkeypatch.setattr("hdpstats.families.hazard.weighted.NUMBERS", 5_000)
    pieces = side.at(side.geometry, side.cap).expected(side.centre)
    for name in ("mean", "square", "curvature"):
        np.testing.assert_allclose(getattr(pieces, name), getattr(whole, name), rtol=1e-8, atol=1e-12)
